"""A process that lacks what Windows lacks: modules, functions and flags, and what it refuses to do with open files."""

AS_ON_WINDOWS = '''
import ctypes, fcntl, mmap, os, shutil, signal, sys
import multiprocessing, socket, subprocess, tempfile, zlib  # libraries come first: they know Windows
import numpy, pandas, pyarrow.parquet, rich.console, typer, zarr

flags_of, real_open, real_fsync = fcntl.fcntl, os.open, os.fsync

def open_files():
    """The files that this process has open, as Linux knows them."""
    for number in os.listdir("/proc/self/fd"):
        try:
            yield os.path.realpath(f"/proc/self/fd/{number}")
        except OSError:
            pass

def refuse(path):
    if os.path.realpath(path) in set(open_files()):
        raise PermissionError(13, "it is open", str(path))

def unless_open(function):
    def checked(path, *more, **named):
        if not isinstance(path, int):
            refuse(path)
        return function(path, *more, **named)
    return checked

def opened(path, *more, **named):
    if os.path.isdir(path):
        raise PermissionError(13, "it is a folder", str(path))
    return real_open(path, *more, **named)

def flushed(descriptor):
    if flags_of(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(9, "it was not opened to be written")
    return real_fsync(descriptor)

def library(name, *more, **named):
    raise TypeError("a library has a name")

os.open, os.fsync, ctypes.CDLL, shutil._use_fd_functions = opened, flushed, library, False
for name in ("replace", "rename", "remove", "unlink"):
    setattr(os, name, unless_open(getattr(os, name)))
for module in ("fcntl", "resource", "pwd", "grp", "termios", "pty"):
    sys.modules[module] = None
for name in ("O_CLOEXEC O_NOFOLLOW O_NONBLOCK O_DIRECTORY fork register_at_fork posix_fadvise posix_fallocate pread "
             "pwrite geteuid getegid getuid getgid statvfs sched_getaffinity killpg getpgid setsid fchmod fchown chown "
             "uname sysconf mkfifo nice getloadavg").split():
    delattr(os, name)
del mmap.MADV_WILLNEED
for name in "SIGHUP SIGKILL SIGCHLD SIGSTOP SIGCONT SIGUSR1 SIGUSR2 SIGALRM SIGPIPE SIGQUIT pthread_sigmask".split():
    delattr(signal, name)
'''
