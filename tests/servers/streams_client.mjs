// The public TypeScript client against a server that is killed and restarted.
//
//     node streams_client.mjs URL        in a directory with the npm package @durable-streams/client
//
// One producer of the client appends numbers until standard input ends. Three readers follow from the start:
// by server-sent events, by long-poll, and by reading what there is again and again. A reader whose session
// fails begins a new one at the offset of its last batch. For each line of input it prints a line as soon as
// all readers have 20 numbers more; at the end what each reader got, as JSON.

import { createRequire } from "node:module"
import { join } from "node:path"
import { pathToFileURL } from "node:url"

const require = createRequire(join(process.cwd(), "x.js"))
const client = await import(pathToFileURL(require.resolve("@durable-streams/client").replace(/\.cjs$/, ".js")))
const { DurableStream, IdempotentProducer, stream } = client

const url = process.argv[2]
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const LIMIT_MS = 20_000 // of a session without any data: the next one begins

// The producer sends a request once: what is refused or lost while the server is away is sent again here.
async function patient(...request) {
  for (;;) {
    try {
      const response = await fetch(...request)
      if (response.status < 500) return response
    } catch (error) {
      if (request[1]?.signal?.aborted) throw error
    }
    await pause(50)
  }
}

const backoffOptions = { initialDelay: 20, maxDelay: 200, multiplier: 1.3 }
let total = Infinity
const readers = ["sse", "long-poll", false].map((live) => ({ live, got: [], sessions: 0, offset: "-1" }))

async function follow(reader) {
  while (reader.got.length < total) {
    reader.sessions++
    try {
      await session(reader)
    } catch {
      // The next session resumes.
    }
    await pause(20)
  }
}

async function session(reader) {
  const stop = new AbortController()
  let over = false
  let timer = setTimeout(() => stop.abort(), LIMIT_MS)
  const response = await stream({
    url, offset: reader.offset, live: reader.live, backoffOptions, signal: stop.signal,
  })
  if (!reader.live) {
    const items = await response.json()
    clearTimeout(timer)
    reader.got.push(...items)
    reader.offset = response.offset
    return
  }
  // `closed` may come before the last batch does: that one is dropped here, and the next session reads it.
  await new Promise((resolve, reject) => {
    response.subscribeJson((batch) => {
      if (over) return
      clearTimeout(timer)
      timer = setTimeout(() => stop.abort(), LIMIT_MS)
      reader.got.push(...batch.items)
      reader.offset = batch.offset
      if (reader.got.length >= total) stop.abort()
    })
    response.closed.then(resolve, reject)
  }).finally(() => {
    over = true
    clearTimeout(timer)
  })
}

const handle = await DurableStream.create({ url, contentType: "application/json", fetch: patient })
const errors = []
const producer = new IdempotentProducer(handle, "driver", {
  fetch: patient, lingerMs: 1, onError: (error) => errors.push(String(error)),
})
let ended = false
let wanted = Infinity
const least = () => Math.min(...readers.map((reader) => reader.got.length))
process.stdin.on("end", () => (ended = true)).on("data", () => (wanted = least() + 20))

const following = readers.map(follow)
let appended = 0
while (!ended) {
  if (appended - least() < 100) producer.append(JSON.stringify(appended++))
  if (least() >= wanted) {
    wanted = Infinity
    console.log("progress")
  }
  await pause(2)
}
await producer.flush()
total = appended
await handle.append(JSON.stringify("end")) // wakes a reader that has all but does not know it yet
await Promise.all(following)

const whole = await (await stream({ url, live: false, backoffOptions })).json()
const inOrder = (got) => got.slice(0, appended).every((value, at) => value === at)
console.log(JSON.stringify({
  appended,
  stored: whole.length === appended + 1 && inOrder(whole),
  errors,
  readers: readers.map(({ live, got, sessions }) => ({ live, sessions, inOrder: got.length >= appended && inOrder(got) })),
}))
process.exit(0)
