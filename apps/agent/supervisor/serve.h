// Operations from one standard input: none needs the start of a program. Each runs in a process of its own, because a reader may
// wait. A request is a line `TAG SECONDS WORDS INPUT`: the operation is ended after so many seconds; then come so many bytes of
// words, with a NUL behind each, and of input. Its answer comes in pieces, each behind a line `TAG BYTES`; one without bytes is the
// end, and `TAG -` says that the operation did not end by itself.
enum { MOST_WORD_BYTES = 2300 * KiB, MOST_HEAD_BYTES = 80, MOST_AT_ONCE = 256, NO_WAIT = 1 };

static char request[MOST_HEAD_BYTES + MOST_WORD_BYTES + MOST_INPUT_BYTES];
static u64 request_bytes;
static struct { i64 pid; u64 tag; } operations[MOST_AT_ONCE];
static int ended_fd;

static void say_died(u64 of) {
  char line[32], *end = line + sizeof line, *from = end - 3;
  memcpy(from, " -\n", 3);
  from = digits_before(from, of);
  lock_output(F_WRLCK);
  while (sys_write(1, from, (u64)(end - from)) == -EINTR);
  lock_output(F_UNLCK);
}
/** Notes which operations have ended, and tells of those that died. Returns how many run. */
static int reap_operations(void) {
  u8 ignored[128];
  u32 status;
  int running = 0;
  while (sys_read(ended_fd, ignored, sizeof ignored) > 0);
  for (i64 pid; (pid = sys_wait4(-1, &status, NO_WAIT)) > 0;)
    for (int i = 0; i < MOST_AT_ONCE; i++)
      if (operations[i].pid == pid) {
        operations[i].pid = 0;
        if (status) say_died(operations[i].tag);
      }
  for (int i = 0; i < MOST_AT_ONCE; i++) running += operations[i].pid != 0;
  return running;
}

/** Until this many bytes have come; ends the process if the agent has left. */
static void await_bytes(u64 n) {
  while (request_bytes < n) {
    struct pollfd polled[2] = {{0, POLLIN, 0}, {ended_fd, POLLIN, 0}};
    sys_poll(polled, 2, -1);
    if (polled[1].revents) reap_operations();
    if (!polled[0].revents) continue;
    i64 got = sys_read(0, request + request_bytes, sizeof request - request_bytes);
    if (got == -EINTR) continue;
    if (got <= 0) leave(0);
    request_bytes += (u64)got;
  }
}

static u64 next_field(u64 *at) {
  u64 n = number(request + *at);
  while (request[*at] >= '0' && request[*at] <= '9') (*at)++;
  (*at)++;
  return n;
}

__attribute__((noreturn)) static void perform_request(u64 at, u64 word_bytes, u64 input_bytes, const char *memory) {
  static char *words[MOST_WORDS + 1];
  u64 n = 0, end = at + word_bytes;
  given = request + end;
  given_bytes = input_bytes;
  while (at < end) {
    if (n == MOST_WORDS) fail("size");
    words[n++] = request + at;
    while (at < end && request[at]) at++;
    if (at++ == end) fail("usage");
  }
  if (at != end || n < 2) fail("usage");
  enter(same(words[0], "commands") ? memory : words[0]);
  if (!perform(words[1], n - 2, words + 2)) fail("usage");
  leave(0);
}

/** What is kept beyond a boot is in folders of this place; short commands are in that of the memory. */
__attribute__((noreturn)) static void serve(const char *place, const char *memory) {
  u64 child = 1ul << (SIG_CHLD - 1);
  if (sys_chdir(place) < 0) leave(1);
  sys_sigprocmask(0, &child);
  ended_fd = (int)sys_signalfd(&child);
  output_lock = (int)sys_memfd("output");
  for (;;) {
    u64 line = 0, at = 0;
    for (;; line++) {
      if (line == MOST_HEAD_BYTES) leave(1);
      await_bytes(line + 1);
      if (request[line] == '\n') break;
    }
    u64 asked = next_field(&at), secs = next_field(&at), word_bytes = next_field(&at), input_bytes = next_field(&at);
    if (!asked || at != line + 1 || word_bytes > MOST_WORD_BYTES || input_bytes > MOST_INPUT_BYTES) leave(1);
    u64 all = at + word_bytes + input_bytes;
    await_bytes(all);
    while (reap_operations() == MOST_AT_ONCE) {
      struct pollfd polled = {ended_fd, POLLIN, 0};
      sys_poll(&polled, 1, -1);
    }
    i64 pid = sys_fork();
    if (pid == 0) {
      tag = asked;
      sys_alarm(secs);
      sys_close(ended_fd);
      perform_request(at, word_bytes, input_bytes, memory);
    }
    for (int i = 0; pid > 0 && i < MOST_AT_ONCE; i++)
      if (!operations[i].pid) {
        operations[i].pid = pid;
        operations[i].tag = asked;
        break;
      }
    if (pid < 0) say_died(asked);
    request_bytes -= all;
    memcpy(request, request + all, request_bytes);
  }
}
