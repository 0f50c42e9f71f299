/* A disk that fails, and one that remembers: loaded before libc (LD_PRELOAD) by the tests of the feature store.
 *
 * FAULTS="call:errno:part-of-a-path;..." makes a call fail where the path contains the part. Calls: open, opendir,
 * fsync-folder, flock; read (of the middle of the file), write (after the first).
 *
 * RECORD=file and RECORD_UNDER=folder write down what is done to the folder, one line for each step:
 *   create P | write P bytes-in-hexadecimal | fsync P size | fsync-folder P | rename P Q | mkdir P | unlink P | rmdir P
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int fails(const char *call, const char *path) {
    const char *faults = getenv("FAULTS");
    if (!faults || !path) return 0;
    char copy[4096], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", faults);
    for (char *one = strtok_r(copy, ";", &rest); one; one = strtok_r(NULL, ";", &rest)) {
        char *number = strchr(one, ':');
        char *part = number ? strchr(number + 1, ':') : NULL;
        if (!part) continue;
        *number++ = *part++ = 0;
        if (!strcmp(one, call) && strstr(path, part)) {
            errno = atoi(number);
            return 1;
        }
    }
    return 0;
}

static const char *path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX);
    path[length < 0 ? 0 : length] = 0;
    return path;
}

/* Whether the middle byte of the file is among those that are read next. */
static int in_the_middle(int fd, size_t size) {
    struct stat status;
    off_t at = lseek(fd, 0, SEEK_CUR);
    return at >= 0 && !fstat(fd, &status) && at <= status.st_size / 2 && at + (off_t)size > status.st_size / 2;
}

ssize_t read(int fd, void *data, size_t size) {
    char path[PATH_MAX + 1];
    if (getenv("FAULTS") && in_the_middle(fd, size) && fails("read", path_of(fd, path))) return -1;
    return syscall(SYS_read, fd, data, size);
}

static void record(const char *format, ...) {
    const char *file = getenv("RECORD");
    if (!file) return;
    int saved = errno;
    char *line = NULL;
    va_list values;
    va_start(values, format);
    int length = vasprintf(&line, format, values);
    va_end(values);
    int fd = syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND, 0600);
    syscall(SYS_write, fd, line, length);
    syscall(SYS_close, fd);
    free(line);
    errno = saved;
}

static int watched(const char *path) {
    const char *under = getenv("RECORD_UNDER");  /* ends with a slash; the folder itself counts */
    if (!under || !path) return 0;
    size_t length = strlen(under), own = strlen(path);
    return !strncmp(path, under, length) || (own + 1 == length && !strncmp(path, under, own));
}

static int opening(const char *path, int flags, mode_t mode) {
    if (fails("open", path)) return -1;
    int is_new = (flags & O_CREAT) && watched(path) && syscall(SYS_faccessat, AT_FDCWD, path, F_OK) != 0;
    int fd = syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    if (fd >= 0 && is_new) record("create %s\n", path);
    return fd;
}

#define OPEN(name)                                                                 \
    int name(const char *path, int flags, ...) {                                   \
        va_list values;                                                            \
        va_start(values, flags);                                                   \
        mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(values, mode_t) : 0; \
        va_end(values);                                                            \
        return opening(path, flags, mode);                                         \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                               \
    int name(int at, const char *path, int flags, ...) {                           \
        va_list values;                                                            \
        va_start(values, flags);                                                   \
        mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(values, mode_t) : 0; \
        va_end(values);                                                            \
        if (path[0] == '/') return opening(path, flags, mode);                     \
        return syscall(SYS_openat, at, path, flags, mode);                         \
    }
OPENAT(openat)
OPENAT(openat64)

DIR *opendir(const char *path) { return fails("opendir", path) ? NULL : REAL(opendir)(path); }

ssize_t write(int fd, const void *data, size_t size) {
    char path[PATH_MAX + 1];
    if (getenv("FAULTS") && lseek(fd, 0, SEEK_CUR) > 0 && fails("write", path_of(fd, path))) return -1;
    ssize_t done = syscall(SYS_write, fd, data, size);
    if (done > 0 && watched(path_of(fd, path))) {
        char *text = malloc(2 * done + 1);
        for (ssize_t i = 0; i < done; i++) sprintf(text + 2 * i, "%02x", ((const unsigned char *)data)[i]);
        record("write %s %s\n", path, text);
        free(text);
    }
    return done;
}

static int flushing(int fd, long number) {
    char path[PATH_MAX + 1];
    struct stat status;
    path_of(fd, path);
    int folder = !fstat(fd, &status) && S_ISDIR(status.st_mode);
    if (folder && fails("fsync-folder", path)) return -1;
    if (watched(path)) {
        if (folder) record("fsync-folder %s\n", path);
        else record("fsync %s %lld\n", path, (long long)status.st_size);
    }
    return syscall(number, fd);
}
int fsync(int fd) { return flushing(fd, SYS_fsync); }
int fdatasync(int fd) { return flushing(fd, SYS_fdatasync); }

int flock(int fd, int how) {
    char path[PATH_MAX + 1];
    return fails("flock", path_of(fd, path)) ? -1 : (int)syscall(SYS_flock, fd, how);
}

int rename(const char *from, const char *to) {
    int failed = syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
    if (!failed && watched(to)) record("rename %s %s\n", from, to);
    return failed;
}

int mkdir(const char *path, mode_t mode) {
    int failed = syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    if (!failed && watched(path)) record("mkdir %s\n", path);
    return failed;
}

int unlink(const char *path) {
    int failed = syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    if (!failed && watched(path)) record("unlink %s\n", path);
    return failed;
}

int rmdir(const char *path) {
    int failed = syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
    if (!failed && watched(path)) record("rmdir %s\n", path);
    return failed;
}
