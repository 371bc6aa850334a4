"""Threads of audited code: each is an actor of the world; those of a process share its memory and its crash.

    waiting     waits of threads in the world, and the state of each process's locks, events and queues.
    locks       Lock, RLock, Condition, Event, Semaphore, Barrier.
    locals      local and its subclasses.
    loaded      those of them that were made before the run.
    queues      queue.Queue and its relatives.
    pool        ThreadPoolExecutor and its futures.
    loop        asyncio.
    lines       steps between the lines of threads that share what they change.
    sharing     detection of changes to memory that another thread may look at.
    routing     the replacements, which `sim.world.places` puts in place while worlds run.

Theory. A thread runs until it sends a request, waits, or does something to a lock, an event or a queue that
another thread may notice. Python code between two steps is atomic, unless
a second search splits it into lines (see `lines`). Taking (a lock, an item, a
result) is a step that is possible only when there is something to take. Giving (releasing, setting, putting,
starting a thread) takes effect at once, and a step follows it, before which others may go on. A request that
lands, or an item that is taken, and the delivery to the code of the thread are two steps, so that another
thread may act in between. A process that has no other thread needs none of these steps.

Threads share memory, and which of two went first may decide what the other finds there. So a step of one
conflicts with all steps of the others when it changes what they can reach, see `sharing`; two that use one
lock, event, queue or future conflict too. Steps of different processes conflict as ever. No thread of the
operating system is started.
"""

from fencepost.sim.threads import routing
