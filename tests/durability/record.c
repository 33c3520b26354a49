/* Records what a process writes below a folder: an LD_PRELOAD library for images.py.

   Each record of $RECORD_TO is: kind (1 byte), file (4), offset (8), length (8), then `length` bytes
   of data or of a name; little-endian. Files are numbered as they are opened or named. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { OPENED = 1, WRITTEN, TRUNCATED, SYNCED, RENAMED, UNLINKED, CREATED, LINKED };
enum { FILES = 4096, NAME = 1024 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char names[FILES][NAME];
static int named, of_descriptor[FILES], sink = -1;
static const char *folder;

#define REAL(type, name, ...) \
    static type (*real_##name)(__VA_ARGS__); \
    if (!real_##name) real_##name = dlsym(RTLD_NEXT, #name)

static ssize_t plain_write(int to, const void *data, size_t length) {
    REAL(ssize_t, write, int, const void *, size_t);
    return real_write(to, data, length);
}

static int open_sink(void) {
    if (sink < 0) {
        const char *path = getenv("RECORD_TO");
        folder = getenv("RECORD_BELOW");
        REAL(int, open, const char *, int, ...);
        sink = path && folder ? real_open(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -2;
    }
    return sink >= 0;
}

static void put(char kind, int file, int64_t offset, const void *data, int64_t length) {
    char head[21];
    int32_t number = file;
    head[0] = kind;
    memcpy(head + 1, &number, 4);
    memcpy(head + 5, &offset, 8);
    memcpy(head + 13, &length, 8);
    if (plain_write(sink, head, 21) != 21) abort();
    while (length > 0) {
        ssize_t done = plain_write(sink, data, length);
        if (done <= 0) abort();
        data = (const char *)data + done;
        length -= done;
    }
}

static int below(const char *path) {
    return path && open_sink() && !strncmp(path, folder, strlen(folder));
}

/* The number of a name; a new one is recorded. Under the lock. */
static int number_of(const char *path) {
    for (int i = 0; i < named; i++)
        if (!strcmp(names[i], path)) return i;
    if (named == FILES || strlen(path) >= NAME) abort();
    strcpy(names[named], path);
    put(OPENED, named, 0, path, strlen(path));
    return named++;
}

static int opened(int descriptor, const char *path, int flags, int existed) {
    if (descriptor >= 0 && descriptor < FILES && below(path)) {
        pthread_mutex_lock(&lock);
        int number = number_of(path);
        of_descriptor[descriptor] = number + 1;
        if (!existed) put(CREATED, number, 0, NULL, 0);
        if (existed && (flags & O_TRUNC)) put(TRUNCATED, number, 0, NULL, 0);
        pthread_mutex_unlock(&lock);
    }
    return descriptor;
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = va_arg(more, mode_t); \
        va_end(more); \
        REAL(int, name, const char *, int, ...); \
        int existed = !access(path, F_OK); \
        return opened(real_##name(path, flags, mode), path, flags, existed); \
    }
OPEN(open)
OPEN(open64)

int openat(int at, const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = va_arg(more, mode_t);
    va_end(more);
    REAL(int, openat, int, const char *, int, ...);
    int existed = !access(path, F_OK);
    return opened(real_openat(at, path, flags, mode), path, flags, existed);
}

static int file_of(int descriptor) {
    return descriptor >= 0 && descriptor < FILES ? of_descriptor[descriptor] - 1 : -1;
}

/* The call and its record are one step for other threads: their order is that of the calls. */
#define PWRITE(name, offset_type) \
    ssize_t name(int descriptor, const void *data, size_t length, offset_type at) { \
        REAL(ssize_t, name, int, const void *, size_t, offset_type); \
        int file = file_of(descriptor); \
        if (file < 0) return real_##name(descriptor, data, length, at); \
        pthread_mutex_lock(&lock); \
        ssize_t done = real_##name(descriptor, data, length, at); \
        if (done > 0) put(WRITTEN, file, at, data, done); \
        pthread_mutex_unlock(&lock); \
        return done; \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

ssize_t write(int descriptor, const void *data, size_t length) {
    int file = file_of(descriptor);
    if (file < 0) return plain_write(descriptor, data, length);
    pthread_mutex_lock(&lock);
    ssize_t done = plain_write(descriptor, data, length);
    if (done > 0) put(WRITTEN, file, lseek(descriptor, 0, SEEK_CUR) - done, data, done);
    pthread_mutex_unlock(&lock);
    return done;
}

#define TRUNCATE(name, offset_type) \
    int name(int descriptor, offset_type length) { \
        REAL(int, name, int, offset_type); \
        int file = file_of(descriptor); \
        if (file < 0) return real_##name(descriptor, length); \
        pthread_mutex_lock(&lock); \
        int failed = real_##name(descriptor, length); \
        if (!failed) put(TRUNCATED, file, length, NULL, 0); \
        pthread_mutex_unlock(&lock); \
        return failed; \
    }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

#define SYNC(name) \
    int name(int descriptor) { \
        REAL(int, name, int); \
        int file = file_of(descriptor); \
        if (file < 0) return real_##name(descriptor); \
        pthread_mutex_lock(&lock); \
        int failed = real_##name(descriptor); \
        if (!failed) put(SYNCED, file, 0, NULL, 0); \
        pthread_mutex_unlock(&lock); \
        return failed; \
    }
SYNC(fsync)
SYNC(fdatasync)

int rename(const char *from, const char *to) {
    REAL(int, rename, const char *, const char *);
    if (!below(from)) return real_rename(from, to);
    pthread_mutex_lock(&lock);
    int failed = real_rename(from, to);
    if (!failed) put(RENAMED, number_of(from), number_of(to), NULL, 0);
    pthread_mutex_unlock(&lock);
    return failed;
}

int link(const char *from, const char *to) {
    REAL(int, link, const char *, const char *);
    if (!below(from)) return real_link(from, to);
    pthread_mutex_lock(&lock);
    int failed = real_link(from, to);
    if (!failed) put(LINKED, number_of(from), number_of(to), NULL, 0);
    pthread_mutex_unlock(&lock);
    return failed;
}

#define REMOVE(name) \
    int name(const char *path) { \
        REAL(int, name, const char *); \
        if (!below(path)) return real_##name(path); \
        pthread_mutex_lock(&lock); \
        int failed = real_##name(path); \
        if (!failed) put(UNLINKED, number_of(path), 0, NULL, 0); \
        pthread_mutex_unlock(&lock); \
        return failed; \
    }
REMOVE(unlink)
REMOVE(remove)

int close(int descriptor) {
    REAL(int, close, int);
    if (descriptor >= 0 && descriptor < FILES) of_descriptor[descriptor] = 0;
    return real_close(descriptor);
}
