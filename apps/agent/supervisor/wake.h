// The guest's end of the wake port: waits on a virtio port for its host, which tells it what it cannot know after its memory
// was restored. The protocol is in README.md. It starts no program.
//
// It waits in the kernel: a write to the port blocks until a host connects, a read until there are bytes or the host is gone.
enum { RNDADDENTROPY = 0x40085203, RNDRESEEDCRNG = 0x5207 };

enum { message_bytes = 256 * 1024, most_files = 16, most_file_bytes = 64 * 1024, most_nonce = 64, most_path = 255, most_name = 63, least_seed = 32, most_seed = 256 };
enum { second = 1000000000 };

/** The lines of the message that is being read, and what follows them. */
static char message[message_bytes];
static u64 message_held;
/** The nonce of that message; empty while there is none. */
static char nonce[most_nonce + 1];
/** When its first line was read, on the clock that only runs forward: the host's time is as of then. */
static struct timespec begun;

/** What follows the word in the line; 0 if the line begins with another one. */
static char *after(char *line, const char *word) {
  return compare(word, line, 1) ? 0 : line + length(word);
}
static void pause_for(i64 secs, i64 ns) {
  struct timespec time = {secs, ns};
  sys_nanosleep(&time);
}
/** Opens the port, which may appear a little later; only one program may have it open. `-` is standard input, for tests. */
static int open_port(const char *path) {
  if (same(path, "-")) return 0;
  for (u64 tries = 0;; tries++) {
    int fd = (int)sys_open(path, O_RDWR | O_NOCTTY, 0);
    if (fd >= 0) return fd;
    if (fd != -ENOENT) pause_for(1, 0);
    else if (tries < 300) pause_for(0, second / 5);
    else pause_for(60, 0);
  }
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
static i64 digits_at(char **at, u64 base, u64 most) {
  u64 n = 0, digits = 0;
  for (; (u64)digit(**at) < base; ++*at, digits++)
    if (digits < most) n = n * base + (u64)digit(**at);
  return digits == 0 || digits > most ? -1 : (i64)n;
}

/** Only the second call takes effect at once: what is added alone waits for the kernel's next turn. */
static i64 set_seed(char *hex, int check) {
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
  i64 device = sys_open("/dev/urandom", O_RDWR, 0);
  if (device < 0) return device;
  i64 failed = sys_ioctl(device, RNDADDENTROPY, &entropy);
  if (!failed) failed = sys_ioctl(device, RNDRESEEDCRNG, 0);
  sys_close(device);
  return failed;
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
  memcpy(fresh, path, at);
  memcpy(fresh + at, ".wake", 6);
  sys_unlink(fresh);
  i64 failed, file = sys_open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (file < 0) return file;
  failed = write_whole(file, bytes, n);
  if (!failed) failed = sys_fchmod(file, mode);
  sys_close(file);
  if (!failed) failed = sys_rename(fresh, path);
  if (failed) sys_unlink(fresh);
  return failed;
}
static i64 set_file(char *line, int check) {
  i64 mode = digits_at(&line, 8, 4);
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
static i64 remove_file(char *path, int check) {
  for (char *c = path; *c; c++)
    if (!is_plain(*c)) return -EINVAL;
  if (!is_path(path)) return -EINVAL;
  i64 failed = check ? 0 : sys_unlink(path);
  return failed == -ENOENT ? 0 : failed;
}
static i64 set_name(char *line, int check) {
  u64 n = length(line);
  if (n < 1 || n > most_name) return -EINVAL;
  for (u64 i = 0; i < n; i++)
    if (!is_name(line[i])) return -EINVAL;
  return check ? 0 : sys_sethostname(line, n);
}
/** What has passed since the message began is added, however long the rest of it took. */
static i64 set_clock(char *line, int check) {
  i64 time = digits_at(&line, 10, 19);
  if (time < 0 || *line) return -EINVAL;
  if (check) return 0;
  struct timespec now;
  sys_clock(1, &now);
  time += (now.secs - begun.secs) * second + now.ns - begun.ns;
  struct timespec right = {time / second, time % second};
  return sys_set_clock(&right);
}

/** Does the lines up to the end in their order, or only checks them all. What failed, or 0. */
static const char *perform_lines(char *end, int check, i64 *failed, int *files) {
  *files = 0;
  for (char *line = message, *next; line < end; line = next) {
    next = line + length(line) + 1;
    char *rest;
    const char *what = "line";
    *failed = -EINVAL;
    if ((rest = after(line, "SEED "))) what = "seed", *failed = set_seed(rest, check);
    else if ((rest = after(line, "FILE ")) && ++*files <= most_files) what = "file", *failed = set_file(rest, check);
    else if ((rest = after(line, "GONE ")) && ++*files <= most_files) what = "file", *failed = remove_file(rest, check);
    else if ((rest = after(line, "NAME "))) what = "host name", *failed = set_name(rest, check);
    else if ((rest = after(line, "CLOCK "))) what = "clock", *failed = set_clock(rest, check);
    if (*failed) return what;
  }
  return 0;
}

/** A host that has given up does the same in another way: nothing may happen after that. */
static int host_listens(void) {
  struct pollfd poll = {answer_fd, 0, 0};
  return sys_poll(&poll, 1, 0) >= 0 && !(poll.revents & POLLHUP);
}

static int reply(const char *failed, i64 code) {
  say(failed ? "NO " : "OK ");
  say(nonce);
  if (failed) {
    say(" the ");
    say(failed);
    say(code == -EINVAL ? " is not valid" : " could not be set (error ");
    if (code != -EINVAL) say_number((u64)-code), say(")");
  }
  say("\n");
  return flush();
}

/** Nothing is done before every line is right. */
static int finish(char *end) {
  i64 code;
  int files;
  const char *failed = perform_lines(end, 1, &code, &files);
  if (!host_listens()) return 1;
  if (!failed) failed = perform_lines(end, 0, &code, &files);
  int sent = reply(failed, code);
  nonce[0] = 0;
  if (files) sys_sync();
  return sent;
}

static void begin_message(char *given) {
  u64 n = length(given);
  nonce[0] = 0;
  for (u64 i = 0; i < n; i++)
    if (!is_name(given[i])) return;
  if (n <= most_nonce) memcpy(nonce, given, n + 1);
  sys_clock(1, &begun);
}

/** Forgets the message up to there. */
static void drop(u64 n) {
  memcpy(message, message + n, message_held -= n);
}

/**
 * Takes the line that ends at `end`, and returns where the next one begins. A message's first line always starts a new message.
 */
static i64 take(u64 start, u64 end) {
  char *line = message + start, *rest;
  message[end] = 0;
  int is_end = after(line, "END") && line[3] == 0;
  if ((rest = after(line, "BEGIN "))) begin_message(rest);
  else if (after(line, "HELLO") && line[5] == 0) {
    say("HELLO\n");
    if (!flush()) return -1;
  } else if (*nonce && !is_end) return (i64)end + 1;
  else if (*nonce && !finish(line)) return -1;
  if (!*nonce || rest) {
    drop(end + 1);
    return 0;
  }
  // A HELLO inside a message: the lines before it stay.
  memcpy(line, message + end + 1, message_held - end - 1);
  message_held -= end + 1 - start;
  return (i64)start;
}

/** Until the host is gone: true; or the port: false. */
static int hear_host(void) {
  u64 start = 0, seen = 0;
  message_held = 0;
  nonce[0] = 0;
  say("HELLO\n");
  if (!flush()) return 0;
  for (;;) {
    i64 got = sys_read(answer_fd, message + message_held, sizeof message - message_held);
    if (got == -EINTR) continue;
    if (got <= 0) return got == 0;
    for (message_held += (u64)got; seen < message_held;) {
      if (message[seen] != '\n') {
        seen++;
        continue;
      }
      i64 next = take(start, seen);
      if (next < 0) return 0;
      start = seen = (u64)next;
    }
    if (message_held < sizeof message) continue;
    // Larger than any message: what follows is skipped up to the next one.
    if (*nonce && !reply("message", -EINVAL)) return 0;
    nonce[0] = 0;
    message_held = start = seen = 0;
  }
}

/** Serves the port at the path, and never returns. `-` is standard input, for tests: it ends with its host. */
__attribute__((noreturn)) static void wait_for_wakes(const char *path) {
  sys_setpriority(-20);
  for (;;) {
    answer_fd = open_port(path);
    // Even if the port does not block, this is no busy loop.
    while (hear_host()) pause_for(0, second / 100);
    if (!answer_fd) leave(0);
    sys_close(answer_fd);
    pause_for(1, 0);
  }
}
