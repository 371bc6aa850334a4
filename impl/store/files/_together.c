/* A create-only put as one call, during which other threads run.

   What it does, and in which order, is told in `writing.py`:

       open without a name -> attributes -> content, made durable -> link -> fsync of the folder -> close

   Each of these is a call to the system for which the interpreter's lock has to be given up and won back. On a
   disk that answers in a tenth of a millisecond, and with more threads than processors, winning it back costs
   more than the disk. Here it is given up once.

   Nothing is decided here. The answer says which step failed and how, and `writing.py` knows what that means;
   whatever is unusual ends before the name is given and is done again there, step by step. */

#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/xattr.h>
#endif

#if defined(__linux__) && defined(O_TMPFILE) && defined(RWF_SYNC)

/* How far it came, as `together.py` spells it. */
enum step { DRAFTED = 0, NAMED = 1, FLUSHED = 2 };

struct request {
    int drafts, folder, flush; /* descriptors; `flush` is -1 when the caller flushes the folder */
    const char *name, *attribute, *value, *body;
    Py_ssize_t value_size, body_size;
};

struct ending {
    enum step failed; /* the step that did not happen; meaningless without an error */
    int error;
    long long flush_ns;
};

static long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Content and attributes, durable, in a file that nobody can see. */
static int draft(int fd, const struct request *asked)
{
    struct iovec body = {(void *)asked->body, (size_t)asked->body_size};
    if (fsetxattr(fd, asked->attribute, asked->value, (size_t)asked->value_size, 0) < 0)
        return errno;
    if (asked->body_size == 0) /* writing nothing would make nothing durable */
        return fsync(fd) < 0 ? errno : 0;
    ssize_t written = pwritev2(fd, &body, 1, 0, RWF_SYNC);
    if (written < 0)
        return errno;
    return written == asked->body_size ? 0 : ENOSPC; /* cut short: the longer way finds out why */
}

static int flush(int fd)
{
    int failed;
    do
        failed = fsync(fd);
    while (failed < 0 && errno == EINTR);
    return failed < 0 ? errno : 0;
}

static struct ending create_open(int fd, const struct request *asked)
{
    char source[32];
    struct ending end = {DRAFTED, 0, 0};
    end.error = draft(fd, asked);
    if (end.error)
        return end;
    end.failed = NAMED;
    snprintf(source, sizeof source, "/proc/self/fd/%d", fd);
    if (linkat(AT_FDCWD, source, asked->folder, asked->name, AT_SYMLINK_FOLLOW) < 0) {
        end.error = errno;
        return end;
    }
    if (asked->flush < 0)
        return end;
    end.failed = FLUSHED;
    long long began_ns = now_ns();
    end.error = flush(asked->flush);
    end.flush_ns = now_ns() - began_ns;
    return end;
}

static struct ending create_unlocked(const struct request *asked)
{
    struct ending end = {DRAFTED, 0, 0};
    int fd = openat(asked->drafts, ".", O_RDWR | O_CLOEXEC | O_TMPFILE, 0666);
    if (fd < 0) {
        end.error = errno;
        return end;
    }
    end = create_open(fd, asked);
    close(fd); /* durable already, or given up */
    return end;
}

static PyObject *create(PyObject *module, PyObject *arguments)
{
    struct request asked;
    struct ending end;
    PyObject *name = NULL;
    (void)module;
    /* The arguments own what is pointed at, and `bytes` never change: safe without the lock. */
    if (!PyArg_ParseTuple(arguments, "iiO&isy#y#:create", &asked.drafts, &asked.folder, PyUnicode_FSConverter,
                          &name, &asked.flush, &asked.attribute, &asked.value, &asked.value_size, &asked.body,
                          &asked.body_size))
        return NULL;
    asked.name = PyBytes_AsString(name);
    if (asked.name == NULL) {
        Py_DECREF(name);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    end = create_unlocked(&asked);
    Py_END_ALLOW_THREADS
    Py_DECREF(name);
    return Py_BuildValue("iiL", (int)end.failed, end.error, end.flush_ns);
}

static PyMethodDef functions[] = {
    {"create", create, METH_VARARGS,
     "create(drafts, folder, name, flush, attribute, value, body) -> (failed step, errno or 0, ns of the flush)"},
    {NULL, NULL, 0, NULL},
};

#else /* no file without a name, or no write that is its own fsync: `together.py` finds no `create` */

static PyMethodDef functions[] = {{NULL, NULL, 0, NULL}};

#endif

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_together",
    .m_size = 0,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__together(void)
{
    return PyModuleDef_Init(&definition);
}
