/* A create-only put as one call, during which other threads run.

   What it does, and in which order, is described in `writing.py`:

       open without a name -> attributes -> content, made durable -> link -> fsync of the folder -> close

   Each of these is a call to the system for which the interpreter's lock has to be given up and won back. On a
   disk that answers in a tenth of a millisecond, and with more threads than processors, winning it back costs
   more than the disk. Here it is given up once.

   The MD5 of the content is taken here too, and written into the attributes where the caller left room for it:
   for a small body it is the longest piece of work that would otherwise be done under the lock.

   Nothing is decided here. The answer says which step failed and how, and `writing.py` knows what that means;
   whatever is unusual ends before the name is given and is done again there, step by step. */

#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/xattr.h>
#endif

#if defined(__linux__) && defined(O_TMPFILE) && defined(RWF_SYNC)

enum { ETAG_DIGITS = 32 };
/* The steps, as `together.py` numbers them. */
enum step { DRAFT = 0, NAME = 1, FLUSH = 2 };

struct request {
    int drafts, folder, flush; /* descriptors; `flush` is -1 when the caller flushes the folder */
    const char *name, *attribute, *body;
    char *value; /* our own copy */
    Py_ssize_t value_size, body_size, etag_at;
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

/* MD5 (RFC 1321). Not for secrets: it is what S3 calls the ETag of an object. */

#define TURN(word, by) ((word) << (by) | (word) >> (32 - (by)))
#define STEP(mix, a, b, c, d, word, by, add) (a = b + TURN(a + (mix) + word + add, by))

static const uint32_t sines[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};

static void md5_block(uint32_t state[4], const unsigned char *block)
{
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], words[16];
    for (int i = 0; i < 16; i++, block += 4)
        words[i] = block[0] | block[1] << 8 | block[2] << 16 | (uint32_t)block[3] << 24;
#define ROUND(mix, first, stride, r, s, t, u, of)                                                  \
    for (int i = 0; i < 16; i += 4) {                                                              \
        STEP(mix(b, c, d), a, b, c, d, words[((i + 0) * stride + first) & 15], r, sines[of + i]);     \
        STEP(mix(a, b, c), d, a, b, c, words[((i + 1) * stride + first) & 15], s, sines[of + i + 1]); \
        STEP(mix(d, a, b), c, d, a, b, words[((i + 2) * stride + first) & 15], t, sines[of + i + 2]); \
        STEP(mix(c, d, a), b, c, d, a, words[((i + 3) * stride + first) & 15], u, sines[of + i + 3]); \
    }
#define PICK(x, y, z) (((x) & (y)) | (~(x) & (z)))
#define PICK_LAST(x, y, z) (((x) & (z)) | ((y) & ~(z)))
#define PARITY(x, y, z) ((x) ^ (y) ^ (z))
#define ODD(x, y, z) ((y) ^ ((x) | ~(z)))
    ROUND(PICK, 0, 1, 7, 12, 17, 22, 0)
    ROUND(PICK_LAST, 1, 5, 5, 9, 14, 20, 16)
    ROUND(PARITY, 5, 3, 4, 11, 16, 23, 32)
    ROUND(ODD, 0, 7, 6, 10, 15, 21, 48)
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

/* 32 hexadecimal digits, without an end. */
static void md5(const char *body, size_t size, char *digits)
{
    uint32_t state[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    unsigned char last[128] = {0};
    size_t whole = size / 64 * 64, rest = size - whole, padded = rest < 56 ? 64 : 128;
    for (size_t at = 0; at < whole; at += 64)
        md5_block(state, (const unsigned char *)body + at);
    memcpy(last, body + whole, rest);
    last[rest] = 0x80;
    for (int i = 0; i < 8; i++)
        last[padded - 8 + i] = (unsigned char)((uint64_t)size * 8 >> (8 * i));
    for (size_t at = 0; at < padded; at += 64)
        md5_block(state, last + at);
    for (int i = 0; i < 32; i++)
        digits[i] = "0123456789abcdef"[state[i / 8] >> (i / 2 % 4 * 8 + (i % 2 ? 0 : 4)) & 15];
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
    struct ending end = {DRAFT, 0, 0};
    end.error = draft(fd, asked);
    if (end.error)
        return end;
    end.failed = NAME;
    snprintf(source, sizeof source, "/proc/self/fd/%d", fd);
    if (linkat(AT_FDCWD, source, asked->folder, asked->name, AT_SYMLINK_FOLLOW) < 0) {
        end.error = errno;
        return end;
    }
    if (asked->flush < 0)
        return end;
    end.failed = FLUSH;
    long long began_ns = now_ns();
    end.error = flush(asked->flush);
    end.flush_ns = now_ns() - began_ns;
    return end;
}

static struct ending create_unlocked(const struct request *asked)
{
    struct ending end = {DRAFT, 0, 0};
    md5(asked->body, (size_t)asked->body_size, asked->value + asked->etag_at);
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
    const char *value;
    PyObject *name = NULL, *answer = NULL;
    (void)module;
    /* The arguments own what is pointed at, and `bytes` never change: safe without the lock. */
    if (!PyArg_ParseTuple(arguments, "iiO&isy#ny#:create", &asked.drafts, &asked.folder, PyUnicode_FSConverter,
                          &name, &asked.flush, &asked.attribute, &value, &asked.value_size, &asked.etag_at,
                          &asked.body, &asked.body_size))
        return NULL;
    asked.name = PyBytes_AsString(name);
    asked.value = malloc((size_t)asked.value_size + 1);
    if (asked.name == NULL || asked.value == NULL)
        PyErr_NoMemory();
    else if (asked.etag_at < 0 || asked.value_size < ETAG_DIGITS || asked.etag_at > asked.value_size - ETAG_DIGITS)
        PyErr_SetString(PyExc_ValueError, "no room for the ETag");
    else {
        memcpy(asked.value, value, (size_t)asked.value_size);
        Py_BEGIN_ALLOW_THREADS
        end = create_unlocked(&asked);
        Py_END_ALLOW_THREADS
        answer = Py_BuildValue("iiLs#", (int)end.failed, end.error, end.flush_ns, asked.value + asked.etag_at,
                               (Py_ssize_t)ETAG_DIGITS);
    }
    free(asked.value);
    Py_DECREF(name);
    return answer;
}

static PyMethodDef functions[] = {
    {"create", create, METH_VARARGS,
     "create(drafts, folder, name, flush, attribute, value, room for the ETag in it, body)"
     " -> (failed step, errno or 0, ns of the flush, ETag)"},
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
