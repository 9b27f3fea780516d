// The guest's end of the wake port: waits on a virtio port for its host, which tells it what it cannot know after its memory
// was restored. Starts no program and needs no C library. The protocol is in README.md beside this file.
//
// It waits in the kernel: a write to the port blocks until a host connects, a read until there are bytes or the host is gone.
typedef unsigned char u8;
typedef unsigned long u64;
typedef long i64;

static i64 call(i64 n, i64 a, i64 b, i64 c, i64 d) {
  i64 result;
  register i64 r10 __asm__("r10") = d;
  __asm__ volatile("syscall" : "=a"(result) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
  return result;
}
#define call0(n) call(n, 0, 0, 0, 0)
#define call1(n, a) call(n, (i64)(a), 0, 0, 0)
#define call2(n, a, b) call(n, (i64)(a), (i64)(b), 0, 0)
#define call3(n, a, b, c) call(n, (i64)(a), (i64)(b), (i64)(c), 0)
enum { READ = 0, WRITE = 1, CLOSE = 3, POLL = 7, IOCTL = 16, NANOSLEEP = 35, RENAME = 82, UNLINK = 87, FCHMOD = 91, SETPRIORITY = 141, SYNC = 162, SETHOSTNAME = 170, CLOCK_SETTIME = 227, CLOCK_GETTIME = 228, EXIT = 231, OPENAT = 257 };
enum { O_WRONLY = 1, O_RDWR = 2, O_CREAT = 0100, O_EXCL = 0200, O_NOCTTY = 0400, O_NOFOLLOW = 0400000, O_CLOEXEC = 02000000 };
enum { ENOENT = 2, EINTR = 4, EIO = 5, EINVAL = 22 };
enum { RNDADDENTROPY = 0x40085203, RNDRESEEDCRNG = 0x5207, POLLHUP = 020 };
struct timespec { i64 secs; i64 ns; };
struct pollfd { int fd; short events, revents; };

enum { message_bytes = 256 * 1024, most_files = 16, most_file_bytes = 64 * 1024, most_nonce = 64, most_path = 255, most_name = 63, least_seed = 32, most_seed = 256 };
enum { second = 1000000000 };

/** The lines of the message that is being read, and what follows them. */
static char text[message_bytes];
static u64 held;
/** Of that message; empty while there is none. */
static char nonce[most_nonce + 1];
/** When its first line was read, on the clock that only runs forward: the host's time is as of then. */
static struct timespec begun;
static int port = -1;

static u64 length(const char *a) {
  u64 n = 0;
  while (a[n]) n++;
  return n;
}
static void copy(char *to, const char *from, u64 n) {
  while (n--) *to++ = *from++;
}
/** What follows the word in the line; 0 if the line begins with another one. */
static char *after(char *line, const char *word) {
  while (*word && *line == *word) line++, word++;
  return *word ? 0 : line;
}
static void pause_for(i64 secs, i64 ns) {
  struct timespec time = {secs, ns};
  call2(NANOSLEEP, &time, 0);
}

static char out[512];
static u64 said;
static void say(const char *words) {
  for (; *words && said < sizeof out; words++) out[said++] = *words;
}
static void say_number(i64 n) {
  char digits[24];
  int at = 24;
  digits[--at] = 0;
  do digits[--at] = (char)('0' + n % 10);
  while (n /= 10);
  say(digits + at);
}
/** Sends what was said; false if the port is not there any more. */
static int send(void) {
  u64 n = said;
  said = 0;
  for (u64 at = 0; at < n;) {
    i64 wrote = call3(WRITE, port, out + at, n - at);
    if (wrote == -EINTR) continue;
    if (wrote <= 0) return 0;
    at += (u64)wrote;
  }
  return 1;
}

static int is_plain(char c) {
  return c > ' ' && c < 127;
}
static int is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}
static int digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}
/** The digits at the text, which moves behind them; -1 if there is none, or they are too many. */
static i64 number(char **at, u64 base, u64 most) {
  u64 n = 0, digits = 0;
  for (; (u64)digit(**at) < base; ++*at, digits++)
    if (digits < most) n = n * base + (u64)digit(**at);
  return digits == 0 || digits > most ? -1 : (i64)n;
}

/** Only the second call takes effect at once: what is added alone waits for the kernel's next turn. */
static i64 seed(char *hex, int check) {
  struct { int bits, bytes; u8 data[most_seed]; } entropy = {0, 0, {0}};
  u64 n = length(hex);
  if (n % 2 || n < 2 * least_seed || n > 2 * most_seed) return -EINVAL;
  for (u64 i = 0; i < n; i += 2) {
    int high = digit(hex[i]), low = digit(hex[i + 1]);
    if (high > 15 || low > 15) return -EINVAL;
    entropy.data[i / 2] = (u8)(high << 4 | low);
  }
  if (check) return 0;
  entropy.bytes = (int)n / 2;
  entropy.bits = entropy.bytes * 8;
  i64 device = call(OPENAT, -100, (i64) "/dev/urandom", O_RDWR | O_CLOEXEC, 0);
  if (device < 0) return device;
  i64 failed = call3(IOCTL, device, RNDADDENTROPY, &entropy);
  if (!failed) failed = call3(IOCTL, device, RNDRESEEDCRNG, 0);
  call1(CLOSE, device);
  return failed;
}

static int sextet(char c) {
  return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : c >= '0' && c <= '9' ? c - '0' + 52 : c == '+' ? 62 : c == '/' ? 63 : -1;
}
/** Decodes base64 in place; the number of bytes, or a failure. While it only checks, the text stays. */
static i64 decode(char *code, int check) {
  u64 n = length(code), bytes = 0;
  unsigned bits = 0, have = 0;
  if (n % 4) return -EINVAL;
  for (u64 i = 0; i < n; i++) {
    if (code[i] == '=' && i + 2 >= n && (i + 1 == n || code[i + 1] == '=')) break;
    int six = sextet(code[i]);
    if (six < 0) return -EINVAL;
    bits = bits << 6 | (unsigned)six;
    if ((have += 6) < 8) continue;
    have -= 8;
    if (!check) code[bytes] = (char)(bits >> have);
    bytes++;
  }
  return bytes > most_file_bytes ? -EINVAL : (i64)bytes;
}

static int is_path(const char *path) {
  u64 n = length(path);
  return path[0] == '/' && n > 1 && n <= most_path && path[n - 1] != '/';
}
/** A new file under another name, which then replaces the old one: whole, or as it was. */
static i64 replace(const char *path, int mode, const char *bytes, u64 n) {
  char fresh[most_path + 8];
  u64 at = length(path);
  copy(fresh, path, at);
  copy(fresh + at, ".wake", 6);
  call1(UNLINK, fresh);
  i64 file = call(OPENAT, -100, (i64)fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600), failed = 0;
  if (file < 0) return file;
  for (u64 done = 0; done < n && !failed;) {
    i64 wrote = call3(WRITE, file, bytes + done, n - done);
    if (wrote == -EINTR) continue;
    if (wrote <= 0) failed = wrote ? wrote : -EIO;
    else done += (u64)wrote;
  }
  if (!failed) failed = call2(FCHMOD, file, mode);
  call1(CLOSE, file);
  if (!failed) failed = call2(RENAME, fresh, path);
  if (failed) call1(UNLINK, fresh);
  return failed;
}
static i64 file(char *line, int check) {
  i64 mode = number(&line, 8, 4);
  if (mode < 0 || *line++ != ' ') return -EINVAL;
  char *path = line;
  while (is_plain(*line)) line++;
  if (*line != ' ') return -EINVAL;
  *line = 0;
  int good = is_path(path);
  i64 bytes = good ? decode(line + 1, check) : -EINVAL;
  i64 failed = bytes < 0 ? bytes : check ? 0 : replace(path, (int)mode, line + 1, (u64)bytes);
  *line = ' ';
  return failed;
}
static i64 gone(char *path, int check) {
  for (char *c = path; *c; c++)
    if (!is_plain(*c)) return -EINVAL;
  if (!is_path(path)) return -EINVAL;
  i64 failed = check ? 0 : call1(UNLINK, path);
  return failed == -ENOENT ? 0 : failed;
}
static i64 name(char *line, int check) {
  u64 n = length(line);
  if (n < 1 || n > most_name) return -EINVAL;
  for (u64 i = 0; i < n; i++)
    if (!is_name(line[i])) return -EINVAL;
  return check ? 0 : call2(SETHOSTNAME, line, n);
}
/** What has passed since the message began is added, however long the rest of it took. */
static i64 clock(char *line, int check) {
  i64 time = number(&line, 10, 19);
  if (time < 0 || *line) return -EINVAL;
  if (check) return 0;
  struct timespec now;
  call2(CLOCK_GETTIME, 1, &now);
  time += (now.secs - begun.secs) * second + now.ns - begun.ns;
  struct timespec right = {time / second, time % second};
  return call2(CLOCK_SETTIME, 0, &right);
}

/** Does the lines up to the end in their order, or only checks them all. What failed, or 0. */
static const char *perform(char *end, int check, i64 *failed, int *files) {
  *files = 0;
  for (char *line = text, *next; line < end; line = next) {
    next = line + length(line) + 1;
    char *rest;
    const char *what = "line";
    *failed = -EINVAL;
    if ((rest = after(line, "SEED "))) what = "seed", *failed = seed(rest, check);
    else if ((rest = after(line, "FILE ")) && ++*files <= most_files) what = "file", *failed = file(rest, check);
    else if ((rest = after(line, "GONE ")) && ++*files <= most_files) what = "file", *failed = gone(rest, check);
    else if ((rest = after(line, "NAME "))) what = "host name", *failed = name(rest, check);
    else if ((rest = after(line, "CLOCK "))) what = "clock", *failed = clock(rest, check);
    if (*failed) return what;
  }
  return 0;
}

/** A host that has given up does the same in another way: nothing may happen after that. */
static int host_listens(void) {
  struct pollfd poll = {port, 0, 0};
  return call3(POLL, &poll, 1, 0) >= 0 && !(poll.revents & POLLHUP);
}

static int answer(const char *failed, i64 code) {
  say(failed ? "NO " : "OK ");
  say(nonce);
  if (failed) {
    say(" the ");
    say(failed);
    say(code == -EINVAL ? " is not valid" : " could not be set (error ");
    if (code != -EINVAL) say_number(-code), say(")");
  }
  say("\n");
  return send();
}

/** Nothing is done before every line is right. */
static int finish(char *end) {
  i64 code;
  int files;
  const char *failed = perform(end, 1, &code, &files);
  if (!host_listens()) return 1;
  if (!failed) failed = perform(end, 0, &code, &files);
  int sent = answer(failed, code);
  nonce[0] = 0;
  if (files) call0(SYNC);
  return sent;
}

static void begin(char *given) {
  u64 n = length(given);
  nonce[0] = 0;
  for (u64 i = 0; i < n; i++)
    if (!is_name(given[i])) return;
  if (n <= most_nonce) copy(nonce, given, n + 1);
  call2(CLOCK_GETTIME, 1, &begun);
}

/** Forgets the text up to there. */
static void drop(u64 n) {
  copy(text, text + n, held -= n);
}

/** A line has ended at `end`; where the next one begins. A message begins anew with its first line, wherever that comes. */
static i64 take(u64 start, u64 end) {
  char *line = text + start, *rest;
  text[end] = 0;
  int is_end = after(line, "END") && line[3] == 0;
  if ((rest = after(line, "BEGIN "))) begin(rest);
  else if (after(line, "HELLO") && line[5] == 0) {
    say("HELLO\n");
    if (!send()) return -1;
  } else if (*nonce && !is_end) return (i64)end + 1;
  else if (*nonce && !finish(line)) return -1;
  if (!*nonce || rest) {
    drop(end + 1);
    return 0;
  }
  // A HELLO inside a message: the lines before it stay.
  copy(line, text + end + 1, held - end - 1);
  held -= end + 1 - start;
  return (i64)start;
}

/** Until the host is gone: true; or the port: false. */
static int serve(void) {
  u64 start = 0, seen = 0;
  held = 0;
  nonce[0] = 0;
  say("HELLO\n");
  if (!send()) return 0;
  for (;;) {
    i64 got = call3(READ, port, text + held, sizeof text - held);
    if (got == -EINTR) continue;
    if (got <= 0) return got == 0;
    for (held += (u64)got; seen < held;) {
      if (text[seen] != '\n') {
        seen++;
        continue;
      }
      i64 next = take(start, seen);
      if (next < 0) return 0;
      start = seen = (u64)next;
    }
    if (held < sizeof text) continue;
    // Larger than any message: what follows is skipped up to the next one.
    if (*nonce && !answer("message", -EINVAL)) return 0;
    nonce[0] = 0;
    held = start = seen = 0;
  }
}

__attribute__((noreturn, used)) static void run(i64 *stack) {
  char **args = (char **)(stack + 1);
  const char *path = stack[0] > 1 ? args[1] : "/dev/virtio-ports/org.dormouse.wake.0";
  call3(SETPRIORITY, 0, 0, -20);
  // Keeps a guest that runs out of memory reachable.
  i64 score = call(OPENAT, -100, (i64) "/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC, 0);
  if (score >= 0) call3(WRITE, score, "-900", 4), call1(CLOSE, score);
  // Standard input, for tests: it ends with its host.
  if (path[0] == '-' && !path[1]) {
    port = 0;
    serve();
    for (;;) call1(EXIT, 0);
  }
  // The port may appear a little after this program starts. If there is none, it looks once a minute.
  for (u64 tries = 0;; tries++) {
    port = (int)call(OPENAT, -100, (i64)path, O_RDWR | O_NOCTTY | O_CLOEXEC, 0);
    if (port >= 0) {
      tries = 0;
      // Even if the port does not block, this is no busy loop.
      while (serve()) pause_for(0, second / 100);
      call1(CLOSE, port);
      pause_for(1, 0);
    } else if (tries < 300) pause_for(0, second / 5);
    else pause_for(60, 0);
  }
}
__asm__(".globl _start\n_start:\n  mov %rsp, %rdi\n  and $-16, %rsp\n  call run\n");
