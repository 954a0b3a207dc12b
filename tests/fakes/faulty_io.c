/* Loaded before the C library, this refuses the n-th call of a kind on the files of one folder.

   The kinds: 0 writes, 1 syncs, 2 truncations, 3 reads. Calls are counted from faulty_arm() on.
   A sync that is not refused is not done either: that takes time, and nobody cuts the power. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static char watched_folder[4096];
static int armed_kind = -1, armed_errno, armed_lasting;
static long armed_nth, calls[4], refusals;

void faulty_arm(const char *folder, int kind, long nth, int error, int lasting) {
    snprintf(watched_folder, sizeof watched_folder, "%s", folder);
    memset(calls, 0, sizeof calls);
    refusals = 0;
    armed_nth = nth;
    armed_errno = error;
    armed_lasting = lasting;
    armed_kind = kind;
}

void faulty_disarm(void) { armed_kind = -1; }

long faulty_calls(int kind) { return calls[kind]; }

long faulty_refusals(void) { return refusals; }

static int is_refused(int fd, int kind) {
    char link[64], path[4096];
    if (armed_kind < 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = '\0';
    if (strncmp(path, watched_folder, strlen(watched_folder)) != 0) return 0;
    calls[kind]++;
    if (kind != armed_kind) return 0;
    if (calls[kind] != armed_nth && !(armed_lasting && calls[kind] > armed_nth)) return 0;
    refusals++;
    errno = armed_errno;
    return 1;
}

#define REFUSABLE(kind, result, name, parameters, arguments)                       \
    result name parameters {                                                       \
        static result(*real) parameters;                                           \
        if (!real) real = (result(*) parameters)dlsym(RTLD_NEXT, #name);           \
        return is_refused(fd, kind) ? -1 : real arguments;                         \
    }

REFUSABLE(0, ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
REFUSABLE(0, ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
REFUSABLE(0, ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
REFUSABLE(0, int, fallocate, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size))
REFUSABLE(0, int, fallocate64, (int fd, int mode, off64_t at, off64_t size), (fd, mode, at, size))
int fsync(int fd) { return is_refused(fd, 1) ? -1 : 0; }
int fdatasync(int fd) { return is_refused(fd, 1) ? -1 : 0; }
REFUSABLE(2, int, ftruncate, (int fd, off_t size), (fd, size))
REFUSABLE(2, int, ftruncate64, (int fd, off64_t size), (fd, size))
REFUSABLE(3, ssize_t, read, (int fd, void *data, size_t size), (fd, data, size))
REFUSABLE(3, ssize_t, pread, (int fd, void *data, size_t size, off_t at), (fd, data, size, at))
REFUSABLE(3, ssize_t, pread64, (int fd, void *data, size_t size, off64_t at), (fd, data, size, at))
