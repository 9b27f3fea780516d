// Many operations from one standard input: none needs the start of a program. Each runs in a process of its own, because a reader
// may wait. A request is a line `TAG ARGUMENTS INPUT` with their bytes, the arguments with a NUL behind each, then the input.
enum { MOST_ARGUMENTS = 6, MOST_ARGUMENT_BYTES = 512, MOST_INPUT_BYTES = 1088 * KiB, MOST_HEAD_BYTES = 64, MOST_AT_ONCE = 64, NO_WAIT = 1 };

static char request[MOST_HEAD_BYTES + MOST_ARGUMENT_BYTES + MOST_INPUT_BYTES];
static u64 request_bytes;

/** Until this many bytes have come; ends the process if the agent has left. */
static void await_bytes(u64 n) {
  while (request_bytes < n) {
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

__attribute__((noreturn)) static void perform(u64 at, u64 argument_bytes, u64 input_bytes) {
  char *args[MOST_ARGUMENTS];
  u64 n = 0, end = at + argument_bytes;
  given = request + end;
  given_bytes = input_bytes;
  while (at < end && n < MOST_ARGUMENTS) {
    args[n++] = request + at;
    while (at < end && request[at]) at++;
    if (at++ == end) fail("usage");
  }
  if (at != end || n == 0 || !served(args[0], n - 1, args + 1)) fail("usage");
  leave(0);
}

__attribute__((noreturn)) static void serve(void) {
  u64 running = 0;
  for (;;) {
    u64 line = 0, at = 0;
    for (;; line++) {
      if (line == MOST_HEAD_BYTES) leave(1);
      await_bytes(line + 1);
      if (request[line] == '\n') break;
    }
    u64 asked = next_field(&at), argument_bytes = next_field(&at), input_bytes = next_field(&at);
    if (!asked || at != line + 1 || argument_bytes > MOST_ARGUMENT_BYTES || input_bytes > MOST_INPUT_BYTES) leave(1);
    u64 all = at + argument_bytes + input_bytes;
    await_bytes(all);
    while (running && sys_wait4(-1, NULL, running < MOST_AT_ONCE ? NO_WAIT : 0) > 0) running--;
    i64 pid = sys_fork();
    if (pid == 0) {
      tag = asked;
      perform(at, argument_bytes, input_bytes);
    }
    if (pid > 0) running++;
    else {
      tag = asked;
      say("no processes\n");
      flush();
      flush();
      tag = 0;
    }
    request_bytes -= all;
    memcpy(request, request + all, request_bytes);
  }
}
