/* Loaded before everything else: writes down the calls to the system that a create makes, and fails one. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>

static char seen[1 << 16], failing[32];
static int watching, error_of_failing, times_left;

/* Fail `call` with `error`, the next `times` times. */
void watch(const char *call, int error, int times)
{
    seen[0] = 0;
    snprintf(failing, sizeof failing, "%s", call);
    error_of_failing = error;
    times_left = times;
    watching = 1;
}

const char *watched(void)
{
    watching = 0;
    return seen;
}

/* Note the call; 1 when it is to fail. */
static int note(const char *call, int fd, long detail)
{
    size_t at = strlen(seen);
    if (!watching)
        return 0;
    snprintf(seen + at, sizeof seen - at, "%s %d %ld\n", call, fd, detail);
    if (strcmp(call, failing) || times_left <= 0)
        return 0;
    times_left--;
    errno = error_of_failing;
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int opened(int fd)
{
    if (watching && fd >= 0)
        note("opened", fd, 0);
    return fd;
}

#define OPENAT(name)                                                  \
    int name(int folder, const char *path, int flags, ...)            \
    {                                                                 \
        va_list rest;                                                 \
        va_start(rest, flags);                                        \
        int mode = va_arg(rest, int);                                 \
        va_end(rest);                                                 \
        if (note("openat", folder, flags))                            \
            return -1;                                                \
        return opened(REAL(name)(folder, path, flags, mode));         \
    }

#define PWRITEV2(name)                                                                      \
    ssize_t name(int fd, const struct iovec *parts, int count, off_t at, int flags)         \
    {                                                                                       \
        if (note("pwritev2", fd, flags))                                                    \
            return error_of_failing ? -1 : (ssize_t)parts->iov_len / 2;                     \
        return REAL(name)(fd, parts, count, at, flags);                                     \
    }

OPENAT(openat)
OPENAT(openat64)
PWRITEV2(pwritev2)
PWRITEV2(pwritev64v2)

int fsetxattr(int fd, const char *name, const void *value, size_t size, int flags)
{
    return note("fsetxattr", fd, 0) ? -1 : REAL(fsetxattr)(fd, name, value, size, flags);
}

int linkat(int from, const char *source, int to, const char *name, int flags)
{
    return note("linkat", to, 0) ? -1 : REAL(linkat)(from, source, to, name, flags);
}

int fsync(int fd)
{
    return note("fsync", fd, 0) ? -1 : REAL(fsync)(fd);
}

int close(int fd)
{
    note("close", fd, 0);
    return REAL(close)(fd);
}
