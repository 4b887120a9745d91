/* Stands between a program and the C library: at the N-th change to certain files it kills, fails, cuts or records.

   Built at test time and loaded with LD_PRELOAD; the program under test arms it through `shim.py`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { WRITE = 1, SYNC = 2, TRUNCATE = 4, NAME = 8 };
enum { PASS, KILL, TEAR, FAIL, SHORT };

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static char match[512];
static int armed_ops, action, error_number;
static atomic_long seen, fired;
static long nth, times;
static int log_fd = -1;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

static void put(const void *data, size_t length) {
    REAL(write);
    for (const char *at = data; length;) {
        ssize_t done = real(log_fd, at, length);
        if (done <= 0) return;
        at += done, length -= done;
    }
}

/* One record: operation, path, offset, data; the reader is in `shim.py`. */
static void note(char operation, const char *path, int64_t offset, const void *data, size_t size) {
    if (log_fd < 0) return;
    uint32_t lengths[2] = {(uint32_t)strlen(path), (uint32_t)size};
    pthread_mutex_lock(&log_lock);
    put(&operation, 1), put(lengths, sizeof lengths), put(&offset, sizeof offset);
    put(path, lengths[0]), put(data, size);
    pthread_mutex_unlock(&log_lock);
}

void fault_arm(const char *part, int ops, int what, int error, long at, long how_often) {
    armed_ops = 0;
    strncpy(match, part, sizeof match - 1);
    action = what, error_number = error, nth = at, times = how_often;
    seen = 0;
    fired = 0;
    armed_ops = ops;
}

long fault_seen(void) { return seen; }
long fault_fired(void) { return fired; }

void fault_record(const char *part, int fd) {
    strncpy(match, part, sizeof match - 1);
    log_fd = fd;
}

void fault_note(const char *text) { note('!', text, 0, "", 0); }

static int is_ours(const char *path) { return match[0] && strstr(path, match) != NULL; }

static int path_of(int fd, char *path, size_t size) {
    if (!armed_ops && log_fd < 0) return 0;
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(name, path, size - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return is_ours(path);
}

static int due(int op) {
    if (!(armed_ops & op)) return PASS;
    long now = ++seen;
    if (now < nth || (times >= 0 && now >= nth + times)) return PASS;
    ++fired;
    if (action == KILL || (action == TEAR && op != WRITE)) kill(getpid(), SIGKILL);
    return action;
}

static ssize_t failed(void) {
    errno = error_number;
    return -1;
}

#define CHANGE(op, path) \
    do { \
        int what = due(op); \
        if (what == FAIL) return failed(); \
    } while (0)

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write);
    char path[512];
    if (!path_of(fd, path, sizeof path)) return real(fd, data, size);
    int what = due(WRITE);
    if (what == FAIL) return failed();
    ssize_t done = real(fd, data, what == PASS ? size : size / 2);
    if (what == TEAR) kill(getpid(), SIGKILL);
    if (done > 0) note('w', path, lseek(fd, 0, SEEK_CUR) - done, data, done);
    return done;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
    REAL(pwrite64);
    char path[512];
    if (!path_of(fd, path, sizeof path)) return real(fd, data, size, offset);
    int what = due(WRITE);
    if (what == FAIL) return failed();
    ssize_t done = real(fd, data, what == PASS ? size : size / 2, offset);
    if (what == TEAR) kill(getpid(), SIGKILL);
    if (done > 0) note('w', path, offset, data, done);
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) { return pwrite64(fd, data, size, offset); }

int fsync(int fd) {
    REAL(fsync);
    char path[512];
    if (!path_of(fd, path, sizeof path)) return real(fd);
    CHANGE(SYNC, path);
    note('s', path, 0, "", 0);
    return log_fd < 0 ? real(fd) : 0;
}

int fdatasync(int fd) {
    REAL(fdatasync);
    char path[512];
    if (!path_of(fd, path, sizeof path)) return real(fd);
    CHANGE(SYNC, path);
    note('s', path, 0, "", 0);
    return log_fd < 0 ? real(fd) : 0;
}

int ftruncate64(int fd, off64_t size) {
    REAL(ftruncate64);
    char path[512];
    if (!path_of(fd, path, sizeof path)) return real(fd, size);
    CHANGE(TRUNCATE, path);
    note('t', path, size, "", 0);
    return real(fd, size);
}

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

int unlink(const char *path) {
    REAL(unlink);
    if (is_ours(path)) {
        CHANGE(NAME, path);
        note('u', path, 0, "", 0);
    }
    return real(path);
}

int rename(const char *from, const char *to) {
    REAL(rename);
    if (is_ours(to)) {
        CHANGE(NAME, to);
        note('r', from, 0, to, strlen(to));
    }
    return real(from, to);
}

int link(const char *from, const char *to) {
    REAL(link);
    if (is_ours(to)) {
        CHANGE(NAME, to);
        note('l', from, 0, to, strlen(to));
    }
    return real(from, to);
}

int open64(const char *path, int flags, ...) {
    REAL(open64);
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if (flags & O_CREAT && is_ours(path) && access(path, F_OK) != 0) {
        CHANGE(NAME, path);
        note('c', path, 0, "", 0);
    }
    return real(path, flags, mode);
}

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return open64(path, flags, mode);
}

/* The same for names in a directory that is open: commits to files know no others. */

static int is_ours_in(int folder, const char *name, char *path, size_t size) {
    if (!armed_ops && log_fd < 0) return 0;
    if (folder == AT_FDCWD || name[0] == '/') return is_ours(name);
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    ssize_t length = readlink(link, path, size - 1);
    if (length <= 0) return 0;
    snprintf(path + length, size - length, "/%s", name);
    return is_ours(path);
}

int openat64(int folder, const char *name, int flags, ...) {
    REAL(openat64);
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    char path[1024];
    if (flags & O_CREAT && is_ours_in(folder, name, path, sizeof path)) CHANGE(NAME, path);
    return real(folder, name, flags, mode);
}

int openat(int folder, const char *name, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return openat64(folder, name, flags, mode);
}

int mkdirat(int folder, const char *name, mode_t mode) {
    REAL(mkdirat);
    char path[1024];
    if (is_ours_in(folder, name, path, sizeof path)) CHANGE(NAME, path);
    return real(folder, name, mode);
}

int symlinkat(const char *target, int folder, const char *name) {
    REAL(symlinkat);
    char path[1024];
    if (is_ours_in(folder, name, path, sizeof path)) CHANGE(NAME, path);
    return real(target, folder, name);
}

int unlinkat(int folder, const char *name, int flags) {
    REAL(unlinkat);
    char path[1024];
    if (is_ours_in(folder, name, path, sizeof path)) CHANGE(NAME, path);
    return real(folder, name, flags);
}

int renameat2(int from_folder, const char *from, int folder, const char *name, unsigned flags) {
    REAL(renameat2);
    char path[1024];
    if (is_ours_in(folder, name, path, sizeof path)) CHANGE(NAME, path);
    return real(from_folder, from, folder, name, flags);
}

int fchmod(int fd, mode_t mode) {
    REAL(fchmod);
    char path[512];
    if (path_of(fd, path, sizeof path)) CHANGE(NAME, path);
    return real(fd, mode);
}

int syncfs(int fd) {
    REAL(syncfs);
    char path[512];
    if (path_of(fd, path, sizeof path)) CHANGE(SYNC, path);
    return real(fd);
}
