"""Forbids a process the system calls and files that a parser does not need.

Landlock and seccomp need no privileges and cannot be undone. There is no C library for Landlock and
no maintained Python library for either, so this module makes the few system calls itself.

Both also confine native code. The audit hook confines only calls from Python. It is for systems
without Landlock and seccomp. docs/security.md lists what each layer forbids.
"""

import contextlib
import ctypes
import mimetypes
import os
import platform
import resource
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence

_NO_NEW_PRIVILEGES, _SET_SECCOMP = 38, 22  # options of prctl
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # on every architecture
_RUN, _READ_FILE, _READ_FOLDER = 1, 1 << 2, 1 << 3
# The number of file rights in each Landlock version; the last number is for all later versions.
_FILE_RIGHTS = (13, 14, 15, 15, 16)
_TCP, _SIGNALS_AND_ABSTRACT_SOCKETS = 0b11, 0b11

_LOAD, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # BPF
_ALLOW, _REFUSE, _KILL = 0x7FFF_0000, 0x0005_0001, 0x8000_0000  # _REFUSE: "not permitted"
_OTHER_NUMBERS = 0x4000_0000  # x32, the second table of system calls on x86_64
_ARCHITECTURES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_EXECVE = {"x86_64": 59, "aarch64": 221}
_TGKILL, _PRLIMIT = {"x86_64": 234, "aarch64": 131}, {"x86_64": 302, "aarch64": 261}
# New processes and threads, sockets, access to other processes and the kernel, and calls that
# Landlock does not cover: modes, owners, times and attributes of files, and watching folders.
_REFUSED = {
    "x86_64": (
        *(41, 42, 44, 46, 49, 50, 53, 307),  # socket connect sendto sendmsg bind listen pair mmsg
        *(56, 57, 58, 435, 59, 322),  # clone fork vfork clone3 execve execveat
        *(62, 101, 310, 311, 424, 434, 438),  # kill ptrace process_vm_* pidfd_*.
        *(425, 321, 298, 323, 248, 249, 250),  # io_uring bpf perf_event userfaultfd keys
        *(272, 308, 165, 155, 319),  # unshare setns mount pivot_root memfd_create.
        *(200, 129, 297, 440, 448, 312),  # tkill sigqueueinfo process_madvise mrelease kcmp
        *(141, 142, 144, 203, 314, 251, 256, 279),  # setpriority sched_set* ioprio_set *_pages.
        *(90, 91, 268, 452, 92, 93, 94, 260),  # chmod and chown, each in four forms
        *(132, 235, 261, 280, 76, 469),  # utime and its forms truncate file_setattr
        *(188, 189, 190, 197, 198, 199, 463, 466),  # setxattr and removexattr
        *(253, 254, 294, 300, 301, 303, 304),  # inotify fanotify *_handle_at
        *(29, 30, 31, 64, 65, 66, 220, 68, 69, 70, 71, 240, 241),  # shm* sem* msg* mq_*
        *(161, 166, 428, 429, 430, 431, 432, 433, 442, 179),  # chroot umount mounts quotactl
        *(170, 171, 164, 227, 159, 305, 103),  # the machine's name and time, its log
        *(175, 313, 176, 246, 320, 169, 167, 168, 163, 172, 173),  # modules kexec reboot swap
    ),
    "aarch64": (
        *(198, 203, 206, 211, 200, 201, 199, 269),
        *(220, 435, 221, 281),
        *(129, 117, 270, 271, 424, 434, 438),
        *(425, 280, 241, 282, 217, 218, 219),
        *(97, 268, 40, 41, 279),
        *(130, 138, 240, 440, 448, 272),
        *(140, 118, 119, 122, 274, 30, 238, 239),
        *(52, 53, 452, 54, 55),
        *(88, 45, 469),
        *(5, 6, 7, 14, 15, 16, 463, 466),
        *(26, 27, 262, 263, 264, 265),
        *(194, 195, 196, 190, 191, 192, 193, 186, 187, 188, 189, 180, 181),
        *(51, 39, 428, 429, 430, 431, 432, 433, 442, 60),
        *(161, 162, 170, 112, 171, 266, 116),
        *(105, 273, 106, 104, 294, 142, 224, 225, 89),
    ),
}

_libc = ctypes.CDLL(None, use_errno=True)


def gain_no_privileges() -> None:
    """Prevent this process, and programs that it starts, from gaining privileges.

    Landlock and seccomp require this.
    """
    _libc.prctl(_NO_NEW_PRIVILEGES, *map(ctypes.c_ulong, (1, 0, 0, 0)))


def find_landlock_version() -> int:
    """Return the kernel's Landlock version. A result below 1 means that the kernel has no
    Landlock."""
    return _call(_CREATE_RULESET, None, 0, 1)


def read_only_below(places: Iterable[str], may_run: bool = False) -> bool:
    """Allow reading files below `places`, and forbid all other file access.

    If `may_run`, programs below `places` may also be run. Returns whether Landlock enforces this.
    """
    version = find_landlock_version()
    if version < 1:
        return False
    handled = (1 << _FILE_RIGHTS[min(version, len(_FILE_RIGHTS)) - 1]) - 1
    fields = (
        handled,
        *((_TCP,) if version >= 4 else ()),
        *((_SIGNALS_AND_ABSTRACT_SOCKETS,) if version >= 6 else ()),
    )
    attributes = struct.pack(f"{len(fields)}Q", *fields)
    rules = _call(_CREATE_RULESET, attributes, len(attributes), 0)
    if rules < 0:
        return False
    for place in places:
        _allow(rules, place, (_READ_FILE | _RUN) if may_run else _READ_FILE)
    done = _call(_RESTRICT_SELF, rules, 0)
    os.close(rules)
    return done == 0


def _allow(rules: int, place: str, rights: int) -> None:
    try:
        opened = os.open(place, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # there is nothing to read
    rights |= _READ_FOLDER if os.path.isdir(place) else 0  # noqa: PTH112
    _call(_ADD_RULE, rules, 1, struct.pack("=Qi", rights, opened), 0)
    os.close(opened)


def refuse_system_calls(may_run: bool = False) -> bool:
    """Forbid new processes and threads, sockets, access to other processes, and calls that Landlock
    does not cover.

    If `may_run`, the process may execute another program, to which the same rules apply. Returns
    whether seccomp enforces this.
    """
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        return False
    steps = [
        (_LOAD, 0, 0, 4),  # the architecture of the call
        (_IF_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),  # the number of the call
        *_build_filter(_TGKILL[machine], os.getpid()),  # abort() signals the process itself
        *_build_filter(_PRLIMIT[machine], 0),  # the process may change only its own limits
    ]
    numbers = [n for n in _REFUSED[machine] if not (may_run and n == _EXECVE[machine])]
    refused = [(_IF_AT_LEAST, _OTHER_NUMBERS), *((_IF_EQUAL, n) for n in numbers)]
    for index, (test, number) in enumerate(refused):
        steps.append((test, len(refused) - index, 0, number))
    steps += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)]
    filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(filters))
    unused = (ctypes.c_ulong(0), ctypes.c_ulong(0))
    return bool(_libc.prctl(_SET_SECCOMP, ctypes.c_ulong(2), program, *unused) == 0)


def _build_filter(number: int, value: int) -> list[tuple[int, int, int, int]]:
    """Build the filter steps that allow a system call only if `value` is its first argument.

    Other system calls skip these steps.
    """
    return [
        (_IF_EQUAL, 0, 4, number),
        (_LOAD, 0, 0, 16),  # the lower half of the first argument
        (_IF_EQUAL, 0, 1, value),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]


def _call(number: int, *arguments: int | bytes | None) -> int:
    typed = (
        ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments
    )
    return int(_libc.syscall(ctypes.c_long(number), *typed))


_CLONE_NEWUSER, _CLONE_NEWNET = 0x1000_0000, 0x4000_0000
_OPEN_FILES = 64
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache")
_NEEDED = (*_LIBRARIES, "/usr/share/zoneinfo", "/dev/null", "/dev/urandom")
_REFUSED_MODULES = (
    *("socket.__new__", "socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo"),
    *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty"),
    *("pty.spawn", "os.remove", "os.rename", "os.rmdir", "os.truncate", "os.link", "os.symlink"),
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def confine(memory_bytes: int) -> None:
    """Forbid this process network, files, new processes and more than `memory_bytes` of memory.

    The process can still read Python and its libraries. Call this function before starting threads.
    If the system does not support a layer, the other layers stay in force.
    """
    _limit_resources(memory_bytes)
    if sys.platform == "linux":
        gain_no_privileges()
        read_only_below(_list_code_places())
        refuse_system_calls()
    sys.addaudithook(_refuse)


def replace_process(
    program: Sequence[str], places: Sequence[str], memory_bytes: int, cpu_s: int
) -> None:
    """Replace this process with another program, confined like a reader process, with at most
    `memory_bytes` of memory and `cpu_s` seconds of CPU time. The program may also read files below
    `places`.

    The program's environment contains only OMP_THREAD_LIMIT, which limits the program to one
    thread.
    """
    _limit_resources(memory_bytes)
    # The soft limit sends SIGXCPU, which names the cause; the hard limit always kills.
    _limit(resource.RLIMIT_CPU, cpu_s, cpu_s + 1)
    if sys.platform == "linux":
        gain_no_privileges()
        read_only_below((program[0], *_NEEDED, *places), may_run=True)
        refuse_system_calls(may_run=True)
    os.execve(program[0], list(program), {"OMP_THREAD_LIMIT": "1"})


def _limit_resources(memory_bytes: int) -> None:
    _prefer_as_oom_victim()
    _leave_network()
    _limit(resource.RLIMIT_AS, memory_bytes)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, _OPEN_FILES)


def _prefer_as_oom_victim() -> None:
    """Make the kernel kill this process rather than the daemon if the machine runs out
    of memory."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
        file.write("1000")


def _list_code_places() -> Iterator[str]:
    """Yield the folders from which code is loaded, and the few files that libraries read."""
    yield from _NEEDED
    yield from (str(place) for place in mimetypes.knownfiles)
    yield from filter(None, sys.path)
    yield os.path.join(sys.base_prefix, "lib")  # noqa: PTH118 - as in sys.path


def _leave_network() -> None:
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        if libc.unshare(_CLONE_NEWNET):
            libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET)


def _limit(resource_id: int, value: int, most: int | None = None) -> None:
    """Lower the limit of `resource_id` to `value`, and its maximum to `most` or, by default, to
    `value`.

    An inherited maximum that is lower stays in force.
    """
    most = value if most is None else most
    inherited = resource.getrlimit(resource_id)[1]
    if inherited != resource.RLIM_INFINITY:
        most = min(most, inherited)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource_id, (min(value, most), most))


def _refuse(event: str, about: tuple[object, ...]) -> None:
    writes = event == "open" and isinstance(about[2], int) and about[2] & _WRITING
    if writes or event in _REFUSED_MODULES:
        raise PermissionError(f"extraction workers may not use {event}")
