// Operations from one standard input: none needs the start of a program. Each runs in a process of its own, because a reader may
// wait. A request is a line `TAG SECONDS WORDS INPUT`: the operation is ended after so many seconds; then come so many bytes of
// words, with a NUL behind each, and of input. Its answer comes in pieces, each behind a line `TAG BYTES`; one without bytes is the
// end, and `TAG -` says that the operation did not end by itself.
//
// A fork is the most expensive part of a short operation. So a process that has only looked at one record takes the next request, and
// a few are forked while nothing is asked.
enum { MOST_WORD_BYTES = 2300 * KiB, MOST_HEAD_BYTES = 80, NO_WAIT = 1, SPARE = 2, SPARE_MS = 20 };

static char request[MOST_HEAD_BYTES + MOST_WORD_BYTES + MOST_INPUT_BYTES];
static u64 request_bytes;
/** The present one: what its line says, and where its words begin and its input ends. */
static struct { u64 tag, secs, word_bytes, input_bytes, at, end; } present;
/** Where each process gets its next request from. */
static int to_worker[MOST_AT_ONCE];
static int ended_fd = -1, place_fd;
static const char *memory_place;

static void say_died(u64 of) {
  say_number(of);
  say(" -\n");
  flush();
}
/** Notes which processes have ended, and tells of the operations that died. */
static void reap_workers(void) {
  u8 ignored[128];
  u32 status;
  while (sys_read(ended_fd, ignored, sizeof ignored) > 0);
  for (i64 pid; (pid = sys_wait4(-1, &status, NO_WAIT)) > 0;)
    for (int i = 0; i < MOST_AT_ONCE; i++)
      if (desks[i].pid == pid) {
        desks[i].pid = 0;
        sys_close(to_worker[i]);
        if (status && desks[i].tag) say_died(desks[i].tag);
      }
}
/** How many wait for a request; and one of them, or -1. */
static int idle;
static int idle_worker(void) {
  int found = -1;
  idle = 0;
  for (int i = 0; i < MOST_AT_ONCE; i++)
    if (desks[i].pid && desks[i].is_idle) idle++, found = i;
  return found;
}

static int fork_worker(void);

/** Until this many bytes have come; ends the process if the agent has left. */
static void await_bytes(u64 n) {
  while (request_bytes < n) {
    struct pollfd polled[2] = {{0, POLLIN, 0}, {ended_fd, POLLIN, 0}};
    idle_worker();
    int is_short = ended_fd >= 0 && idle < SPARE && !request_bytes;
    if (sys_poll(polled, 2, is_short ? SPARE_MS : -1) == 0 && is_short) fork_worker();
    if (polled[1].revents) reap_workers();
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
static void await_request(void) {
  u64 line = 0, at = 0;
  for (;; line++) {
    if (line == MOST_HEAD_BYTES) leave(1);
    await_bytes(line + 1);
    if (request[line] == '\n') break;
  }
  present.tag = next_field(&at), present.secs = next_field(&at), present.word_bytes = next_field(&at), present.input_bytes = next_field(&at);
  if (!present.tag || at != line + 1 || present.word_bytes > MOST_WORD_BYTES || present.input_bytes > MOST_INPUT_BYTES) leave(1);
  present.at = at;
  present.end = at + present.word_bytes + present.input_bytes;
  await_bytes(present.end);
}
__attribute__((noreturn, noinline)) static void perform_request(void) {
  static char *words[MOST_WORDS + 1];
  u64 n = 0, at = present.at, end = at + present.word_bytes;
  given = request + end;
  given_bytes = present.input_bytes;
  while (at < end) {
    if (n == MOST_WORDS) fail("size");
    words[n++] = request + at;
    while (at < end && request[at]) at++;
    if (at++ == end) fail("usage");
  }
  if (at != end || n < 2) fail("usage");
  words[n] = NULL;
  sys_fchdir(place_fd);
  enter(same(words[0], "commands") ? memory_place : words[0]);
  if (!perform(words[1], n - 2, words + 2)) fail("usage");
  leave(0);
}
/** Performs the requests that it is handed, until one leaves something behind. */
__attribute__((noreturn, noinline)) static void work(void) {
  for (;;) {
    await_request();
    tag = present.tag;
    sys_alarm(present.secs);
    if (!__builtin_setjmp(resume)) perform_request();
    sys_alarm(0);
    close_record(&target);
    desk->tag = tag = may_resume = request_bytes = 0;
    idle_worker();
    if (idle > SPARE) leave(0);
    desk->is_idle = 1;
  }
}
/** Starts a process that waits for a request, and returns its number; -1 if there can be no more. */
static int fork_worker(void) {
  int i = 0, ends[2];
  while (i < MOST_AT_ONCE && desks[i].pid) i++;
  if (i == MOST_AT_ONCE || sys_pipe(ends, O_CLOEXEC) < 0) return -1;
  desks[i].tag = 0;
  desks[i].is_idle = 1;
  i64 pid = sys_fork();
  if (pid == 0) {
    for (int other = 0; other < MOST_AT_ONCE; other++)
      if (desks[other].pid) sys_close(to_worker[other]);
    sys_dup2(ends[0], 0);
    sys_close(ends[0]);
    sys_close(ends[1]);
    sys_close(ended_fd);
    ended_fd = -1;
    request_bytes = 0;
    desk = &desks[i];
    work();
  }
  sys_close(ends[0]);
  desks[i].pid = pid < 0 ? 0 : pid;
  to_worker[i] = ends[1];
  if (pid > 0) return i;
  sys_close(ends[1]);
  return -1;
}
/** Hands the request to a process that waits, or to a new one. */
static void hand_over(void) {
  int i = idle_worker();
  if (i < 0) i = fork_worker();
  if (i < 0) return say_died(present.tag);
  desks[i].tag = present.tag;
  desks[i].upto = desks[i].is_stopped = desks[i].is_idle = 0;
  // It reads all of it before it does anything else. If it has died, that is told with its end.
  write_whole(to_worker[i], request, present.end);
}

/** What is kept beyond a boot is in folders of this place; short commands are in that of the memory. */
__attribute__((noreturn)) static void serve(const char *place, const char *memory) {
  u64 child = 1ul << (SIG_CHLD - 1);
  if (sys_chdir(place) < 0) leave(1);
  place_fd = (int)sys_open(".", O_PATH | O_DIRECTORY, 0);
  memory_place = memory;
  sys_sigprocmask(0, &child);
  ended_fd = (int)sys_signalfd(&child);
  output_lock = (int)sys_memfd("output");
  desks = (struct desk *)sys_share(sizeof *desks * MOST_AT_ONCE);
  server = sys_getpid();
  for (;;) {
    await_request();
    hand_over();
    request_bytes -= present.end;
    memcpy(request, request + present.end, request_bytes);
  }
}
