// System calls, text and base64 without a C library: the program is small enough to be sent into any guest.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
typedef long i64;

#define NULL ((void *)0)
#define EXPORTED __attribute__((used))

static inline i64 call6(i64 n, i64 a, i64 b, i64 c, i64 d, i64 e, i64 f) {
  i64 result;
  register i64 r10 __asm__("r10") = d;
  register i64 r8 __asm__("r8") = e;
  register i64 r9 __asm__("r9") = f;
  __asm__ volatile("syscall" : "=a"(result) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
  return result;
}
#define call(n, a, b, c, d) call6(n, (i64)(a), (i64)(b), (i64)(c), (i64)(d), 0, 0)

#define sys_read(fd, p, n) call(0, fd, p, n, 0)
#define sys_write(fd, p, n) call(1, fd, p, n, 0)
#define sys_close(fd) call(3, fd, 0, 0, 0)
#define sys_fstat(fd, p) call(5, fd, p, 0, 0)
#define sys_poll(p, n, ms) call(7, p, n, ms, 0)
#define sys_mmap(fd, n) call6(9, 0, n, 3, 1, fd, 0)
/** Memory that later forks share. */
#define sys_share(n) call6(9, 0, n, 3, 0x21, -1, 0)
#define sys_sigaction(s, p) call(13, s, p, 0, 8)
#define sys_sigprocmask(how, set) call(14, how, set, 0, 8)
#define sys_ioctl(fd, op, p) call(16, fd, op, p, 0)
#define sys_pread(fd, p, n, at) call(17, fd, p, n, at)
#define sys_pwrite(fd, p, n, at) call(18, fd, p, n, at)
#define sys_seek(fd, at, how) call(8, fd, at, how, 0)
#define sys_madvise(p, n, how) call(28, p, n, how, 0)
#define sys_msync(p, n) call(26, p, n, 4, 0)
#define sys_dup(fd) call(32, fd, 0, 0, 0)
#define sys_dup2(a, b) call(33, a, b, 0, 0)
#define sys_nanosleep(p) call(35, p, 0, 0, 0)
#define sys_alarm(secs) call(37, secs, 0, 0, 0)
#define sys_getpid() call(39, 0, 0, 0, 0)
#define sys_getppid() call(110, 0, 0, 0, 0)
#define sys_fork() call(57, 0, 0, 0, 0)
/** A fork whose child has this memory until it starts a program. */
#define sys_vfork() call(58, 0, 0, 0, 0)
#define sys_execve(path, argv, envp) call(59, path, argv, envp, 0)
#define sys_exit(code) call(231, code, 0, 0, 0)
#define sys_wait4(pid, status, how) call(61, pid, status, how, 0)
#define sys_kill(pid, signal) call(62, pid, signal, 0, 0)
#define sys_fcntl(fd, op, arg) call(72, fd, op, arg, 0)
#define sys_flock(fd, how) call(73, fd, how, 0, 0)
#define sys_fsync(fd) call(74, fd, 0, 0, 0)
#define sys_fdatasync(fd) call(75, fd, 0, 0, 0)
#define sys_ftruncate(fd, n) call(77, fd, n, 0, 0)
#define sys_getcwd(p, n) call(79, p, n, 0, 0)
#define sys_chdir(path) call(80, path, 0, 0, 0)
#define sys_fchdir(fd) call(81, fd, 0, 0, 0)
#define sys_rename(from, to) call(82, from, to, 0, 0)
#define sys_mkdir(path, mode) call(83, path, mode, 0, 0)
#define sys_rmdir(path) call(84, path, 0, 0, 0)
#define sys_unlink(path) call(87, path, 0, 0, 0)
#define sys_readlink(path, p, n) call(89, path, p, n, 0)
#define sys_fchmod(fd, mode) call(91, fd, mode, 0, 0)
#define sys_fchown(fd, uid, gid) call(93, fd, uid, gid, 0)
#define sys_lchown(path, uid, gid) call(94, path, uid, gid, 0)
#define sys_umask(mode) call(95, mode, 0, 0, 0)
#define sys_setsid() call(112, 0, 0, 0, 0)
#define sys_mkfifo(path) call(133, path, 0010600, 0, 0)
#define sys_schedule(pid, policy, p) call(144, pid, policy, p, 0)
#define sys_setpriority(n) call(141, 0, 0, n, 0)
#define sys_sync() call(162, 0, 0, 0, 0)
#define sys_sethostname(p, n) call(170, p, n, 0, 0)
#define sys_futex(p, op, value, timeout) call(202, p, op, value, timeout)
#define sys_getdents(fd, p, n) call(217, fd, p, n, 0)
#define sys_set_clock(p) call(227, 0, p, 0, 0)
#define sys_clock(which, p) call(228, which, p, 0, 0)
#define sys_openat(at, path, flags, mode) call(257, at, path, (flags) | O_CLOEXEC, mode)
#define sys_open(path, flags, mode) sys_openat(-100, path, flags, mode)
#define sys_stat(path, p) call(262, -100, path, p, 0x100)
#define sys_stat_followed(path, p) call(262, -100, path, p, 0)
#define sys_watch(fd, path, mask) call(254, fd, path, mask, 0)
#define sys_unwatch(fd, wd) call(255, fd, wd, 0, 0)
#define sys_notify(flags) call(294, flags, 0, 0, 0)
#define sys_fallocate(fd, n) call(285, fd, 0, 0, n)
#define sys_signalfd(set) call(289, -1, set, 8, O_CLOEXEC | O_NONBLOCK)
#define sys_memfd(name) call(319, name, 1, 0, 0)
#define sys_statat(folder, path, p, flags) call(262, folder, path, p, flags)
#define sys_unlinkat(folder, path, flags) call(263, folder, path, flags, 0)
#define sys_renameat(from, name, to, name_there, flags) call6(316, from, (i64)(name), to, (i64)(name_there), flags, 0)
#define sys_getrandom(p, n) call(318, p, n, 0, 0)
#define sys_limit(which, to, from) call(302, 0, which, to, from)
#define sys_chmod(path, mode) call(90, path, mode, 0, 0)
#define sys_symlink(target, path) call(88, target, path, 0, 0)
#define sys_link(from, to) call(86, from, to, 0, 0)
#define sys_mknod(path, mode, device) call(133, path, mode, device, 0)
#define sys_set_times(path, times) call(280, HERE, path, times, NO_FOLLOW)
#define sys_list_traits(path, names, n) call(195, path, names, n, 0)
#define sys_get_trait(path, name, p, n) call(192, path, name, p, n)
#define sys_set_trait(path, name, p, n) call6(189, (i64)(path), (i64)(name), (i64)(p), n, 0, 0)
#define sys_copy_range(from, to, n) call6(326, from, 0, to, 0, n, 0)
#define sys_pipe(fds, flags) call(293, fds, flags, 0, 0)

enum { O_RDONLY = 0, O_WRONLY = 1, O_RDWR = 2, O_CREAT = 0100, O_EXCL = 0200, O_NOCTTY = 0400, O_TRUNC = 01000, O_NONBLOCK = 04000, O_DIRECTORY = 0200000, O_NOFOLLOW = 0400000, O_CLOEXEC = 02000000, O_PATH = 010000000 };
enum { F_SETLKW = 7, F_WRLCK = 1, F_UNLCK = 2 };
enum { LOCK_SH = 1, LOCK_EX = 2, LOCK_NB = 4, LOCK_UN = 8 };
enum { EPERM = 1, ENOENT = 2, EINTR = 4, EIO = 5, ENXIO = 6, E2BIG = 7, ENOEXEC = 8, EAGAIN = 11, ENOMEM = 12, EACCES = 13, EBUSY = 16, EEXIST = 17, EXDEV = 18, ENOTDIR = 20, EISDIR = 21, EINVAL = 22, ENOSPC = 28, ENAMETOOLONG = 36, ENOTEMPTY = 39, ELOOP = 40, ELIBACC = 79, EOPNOTSUPP = 95 };
enum { S_IFMT = 0170000, S_IFREG = 0100000, S_IFDIR = 0040000, S_IFLNK = 0120000 };
enum { POLLIN = 1, POLLOUT = 4, POLLHUP = 16 };

struct pollfd { int fd; short events; short revents; };
struct timespec { i64 secs; i64 ns; };
struct stat { u64 dev, ino, nlink; u32 mode, uid, gid, pad; u64 rdev; i64 size, blksize, blocks; i64 atime, atime_ns, mtime, mtime_ns, ctime, ctime_ns; i64 rest[3]; };
struct dirent { u64 ino; i64 off; u16 length; u8 type; char name[]; };

EXPORTED void *memcpy(void *to, const void *from, u64 n) {
  void *start = to;
  u64 words = n / 8, rest = n % 8;
  __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(words) : : "memory");
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(rest) : : "memory");
  return start;
}
EXPORTED void *memset(void *to, int byte, u64 n) {
  u8 *a = to;
  while (n--) *a++ = (u8)byte;
  return to;
}

static u64 length(const char *text) {
  u64 n = 0;
  while (text[n]) n++;
  return n;
}
/** Below zero if the first text comes before the other. `begins` stops at the end of the first one. */
static int compare(const char *a, const char *b, int begins) {
  while (*a && *a == *b) a++, b++;
  return begins && !*a ? 0 : (u8)*a - (u8)*b;
}
static int same(const char *a, const char *b) {
  return !compare(a, b, 0);
}
/** Whether both begin with the same name, up to `=`. */
static int same_name(const char *a, const char *b) {
  while (*a && *a != '=' && *a == *b) a++, b++;
  return (!*a || *a == '=') && (!*b || *b == '=');
}
static u64 number(const char *text) {
  u64 n = 0;
  while (*text >= '0' && *text <= '9') n = n * 10 + (u64)(*text++ - '0');
  return n;
}
static u64 seconds(int clock) {
  struct timespec now;
  sys_clock(clock, &now);
  return (u64)now.secs;
}
static u64 milliseconds(void) {
  struct timespec now;
  sys_clock(1, &now);
  return (u64)now.secs * 1000 + (u64)now.ns / 1000000;
}

/** The end of this process, or nothing. */
enum { BY_DEFAULT = 0, IGNORED = 1 };
static void on_signal(int signal, u64 what) {
  u64 action[4] = {what, 0, 0, 0};
  sys_sigaction(signal, action);
}
/** Writes to a file of the kernel, if there is one. */
static void put(const char *path, const char *text) {
  i64 fd = sys_open(path, O_WRONLY, 0);
  if (fd < 0) return;
  sys_write(fd, text, length(text));
  sys_close(fd);
}

struct listing { int fd; i64 bytes, at; char entries[2048] __attribute__((aligned(8))); };

/** The next entry of the folder; NULL at its end. */
static struct dirent *next_entry(struct listing *l) {
  for (;;) {
    if (l->at >= l->bytes) {
      l->bytes = sys_getdents(l->fd, l->entries, sizeof l->entries);
      l->at = 0;
      if (l->bytes <= 0) return NULL;
    }
    struct dirent *entry = (struct dirent *)(l->entries + l->at);
    l->at += entry->length;
    if (!same(entry->name, ".") && !same(entry->name, "..")) return entry;
  }
}

enum { ANSWER_BYTES = 32 * 1024, ANSWER_HEAD_BYTES = 48, MOST_WORDS = 240000, MOST_INHERITED = 1000 };
/** A message and its head are one write. */
static char answer[ANSWER_HEAD_BYTES + ANSWER_BYTES];
static char *const said = answer + ANSWER_HEAD_BYTES;
static u64 said_bytes;
static int answer_fd = 1;
/** Above zero, each piece of the answer begins with a line `TAG BYTES`, and a piece without bytes ends it. */
static u64 tag;

/** Of the processes that write to the same end one at a time does, so nothing comes in between. Below zero, there is but one. */
static int output_lock = -1;
static void lock_output(short how) {
  struct { short how, from; u32 pad; i64 start, bytes; int pid; } whole = {how, 0, 0, 0, 0, 0};
  while (output_lock >= 0 && sys_fcntl(output_lock, F_SETLKW, &whole) == -EINTR);
}

/** Writes the digits before `end`, and returns the first. */
static char *digits_before(char *end, u64 n) {
  do *--end = (char)('0' + n % 10);
  while (n /= 10);
  return end;
}
/** Zero once all of it is written, or the error. */
static i64 write_whole(int fd, const void *from, u64 n) {
  for (u64 done = 0; done < n;) {
    i64 wrote = sys_write(fd, (const u8 *)from + done, n - done);
    if (wrote == -EINTR) continue;
    if (wrote <= 0) return wrote ? wrote : -EIO;
    done += (u64)wrote;
  }
  return 0;
}
/** False if not all of it could be written. */
static int flush(void) {
  char *from = said, *end = said + said_bytes;
  if (tag) {
    *--from = '\n';
    from = digits_before(from, said_bytes);
    *--from = ' ';
    from = digits_before(from, tag);
  }
  lock_output(F_WRLCK);
  i64 failed = write_whole(answer_fd, from, (u64)(end - from));
  lock_output(F_UNLCK);
  said_bytes = 0;
  return !failed;
}
static void say_char(char c) {
  if (said_bytes == ANSWER_BYTES) flush();
  said[said_bytes++] = c;
}
static void say(const char *text) {
  while (*text) say_char(*text++);
}
static void say_number(u64 n) {
  char digits[24];
  digits[23] = 0;
  say(digits_before(digits + 23, n));
}
static void say_field(u64 n) {
  say_char(' ');
  say_number(n);
}
/** If an operation leaves nothing behind, its process goes on here. */
static void *resume[5];
static int may_resume;
__attribute__((noreturn, noinline)) static void leave(int code) {
  if (said_bytes) flush();
  if (tag && !code) flush();
  if (may_resume && !code) __builtin_longjmp(resume, 1);
  for (;;) sys_exit(code);
}
/** Called before a failure is told: removes what is unfinished. */
static void (*undo)(void);
/** Standard output is the bytes of a file: a failure goes to standard error, as that of a shell's script does. */
static int is_stream;
enum { FAILED_CODE = 97 };
/** The agent reads the first word of the answer. */
__attribute__((noreturn)) static void fail(const char *why) {
  void (*now)(void) = undo;
  undo = NULL;
  if (now) now();
  if (is_stream) answer_fd = 2;
  say(is_stream ? ": " : "no ");
  say(why);
  say("\n");
  leave(is_stream ? FAILED_CODE : 0);
}
/** Fails with what the kernel has returned. */
__attribute__((noreturn)) static void refuse(i64 error) {
  static char why[32] = "errno ";
  char *digits = digits_before(why + 31, (u64)-error);
  memcpy(why + 6, digits, (u64)(why + 32 - digits));
  fail(why);
}
/** The result, if it is none of the kernel's errors. */
static i64 must(i64 result) {
  if (result < 0) refuse(result);
  return result;
}

static void say_bytes(const u8 *bytes, u64 n) {
  while (n) {
    if (said_bytes == ANSWER_BYTES) flush();
    u64 part = n < ANSWER_BYTES - said_bytes ? n : ANSWER_BYTES - said_bytes;
    memcpy(said + said_bytes, bytes, part);
    said_bytes += part;
    bytes += part;
    n -= part;
  }
}

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static void say_base64(const u8 *bytes, u64 n) {
  for (u64 at = 0; at < n; at += 3) {
    u32 three = (u32)bytes[at] << 16 | (at + 1 < n ? (u32)bytes[at + 1] << 8 : 0) | (at + 2 < n ? bytes[at + 2] : 0);
    say_char(alphabet[three >> 18]);
    say_char(alphabet[three >> 12 & 63]);
    say_char(at + 1 < n ? alphabet[three >> 6 & 63] : '=');
    say_char(at + 2 < n ? alphabet[three & 63] : '=');
  }
}
/** What the character stands for in base64; below zero for none. */
static int sextet(char c) {
  return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : c >= '0' && c <= '9' ? c - '0' + 52 : c == '+' ? 62 : c == '/' ? 63 : -1;
}
/** What comes until the end, or until there is so much of it. */
static u64 read_up_to(int fd, void *to, u64 n) {
  u64 done = 0;
  for (i64 got; done < n && ((got = sys_read(fd, (u8 *)to + done, n - done)) > 0 || got == -EINTR);)
    if (got > 0) done += (u64)got;
  return done;
}
/** The input of an operation that came with its request. */
static const char *given;
static u64 given_bytes;
/** All of it, up to so much; from standard input if the operation is not served. */
static u64 read_given(u8 *text, u64 most) {
  if (given) {
    u64 n = given_bytes < most ? given_bytes : most;
    memcpy(text, given, n);
    return n;
  }
  return read_up_to(0, text, most);
}
