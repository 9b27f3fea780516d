// One command's supervisor: a process of its own session that waits for no reader. It copies what the command prints into the
// rings, gives it its input, and records how it ended.
enum { SIG_PIPE = 13, SIG_KILL = 9, SIG_CHLD = 17 };
enum { TIOCSCTTY = 0x540e, TIOCSWINSZ = 0x5414, TIOCSPTLCK = 0x40045431, TIOCGPTN = (int)0x80045430 };
enum { SCHED_BATCH = 3, FLOWS_BYTES = 4096, FLOWS_MS = 8, SYNC_MS = 5000, DRAIN_BYTES = 4 * MiB };

struct bell { u8 what, signal; u16 columns, rows, unused; };
struct window { u16 rows, columns, x, y; };

/** Leaves the cgroup of the service that the host's connection belongs to: its end would end the command. */
static void leave_cgroup(void) {
  put("/sys/fs/cgroup/cgroup.procs", "0");
  put("/sys/fs/cgroup/systemd/cgroup.procs", "0");
}

static u8 chunk[64 * KiB];

struct job {
  struct record r;
  int pid, bell, signals;
  /** The command's ends: -1 once they are closed. A terminal is both `to` and `from[OUT]`. */
  int to, from[3];
  u64 deadline_ms;
  u64 reason;
};

static void close_one(int *fd) {
  if (*fd >= 0) sys_close(*fd);
  *fd = -1;
}

/** Output flows: a little later there is more to copy at once. */
static int flows;

/** Copies what has come. False at the end of the stream. */
static int copy_output(struct job *j, int which) {
  i64 n = sys_read(j->from[which], chunk, sizeof chunk);
  flows |= n >= FLOWS_BYTES && n < (i64)sizeof chunk;
  if (n == -EAGAIN || n == -EINTR) return 1;
  if (n <= 0) {
    if (!(j->r.head->flags & TTY)) close_one(&j->from[which]);
    return 0;
  }
  // What is left in the background goes on. What it prints is dropped.
  if (j->pid) append(&j->r, which, chunk, (u64)n);
  return 1;
}

static void close_input(struct job *j) {
  struct stream *s = &j->r.head->streams[IN];
  if (!(j->r.head->flags & TTY)) close_one(&j->to);
  else j->to = -1;
  __sync_fetch_and_or(&s->flags, INPUT_CLOSED);
  changed(s);
}
/** Gives the command what its input has. */
static void give_input(struct job *j) {
  struct stream *s = &j->r.head->streams[IN];
  while (j->to >= 0 && s->start < s->end) {
    u64 n = s->end - s->start < 4096 ? s->end - s->start : 4096;
    n = around(j->r.data[IN], s, s->start, chunk, n, 0);
    i64 taken = n ? sys_write(j->to, chunk, n) : -1;
    if (taken == -EINTR) continue;
    if (taken == -EAGAIN) return;
    if (taken <= 0) return close_input(j);
    s->start += (u64)taken;
    changed(s);
  }
  if (j->to < 0 || !(s->flags & INPUT_ENDS)) return;
  // A terminal's end of input is a character.
  if (j->r.head->flags & TTY) sys_write(j->to, "\4", 1);
  close_input(j);
}

static void kill_group(struct job *j, int signal) {
  if (j->pid > 0) sys_kill(-j->pid, signal);
}
/** Whether a process is of this session. Its name, which may hold anything, ends with the last parenthesis. */
static int is_of_session(const char *pid, u64 session) {
  static char text[512];
  int fd = (int)sys_open(path_in(path_in("/proc", pid), "stat"), O_RDONLY, 0);
  i64 got = sys_read(fd, text, sizeof text - 1);
  sys_close(fd);
  if (got <= 0) return 0;
  text[got] = 0;
  char *at = text;
  for (char *c = text; *c; c++)
    if (*c == ')') at = c;
  // The fourth field behind it: state, parent, group, session.
  for (int spaces = 0; *at && spaces < 4; at++) spaces += *at == ' ';
  return number(at) == session;
}
/** Kills the command with all of its session, also what has made a group of its own. */
static void kill_session(struct job *j) {
  kill_group(j, SIG_KILL);
  struct listing l = {.fd = j->pid > 0 ? (int)sys_open("/proc", O_RDONLY | O_DIRECTORY, 0) : -1};
  for (struct dirent *entry; (entry = next_entry(&l));)
    if (entry->name[0] >= '1' && entry->name[0] <= '9' && length(entry->name) < 12 && is_of_session(entry->name, (u64)j->pid))
      sys_kill((i64)number(entry->name), SIG_KILL);
  sys_close(l.fd);
}
static void answer_bell(struct job *j) {
  struct bell rung;
  while (sys_read(j->bell, &rung, sizeof rung) == sizeof rung) {
    if (rung.what == 's') kill_group(j, rung.signal);
    if (rung.what == 'k') {
      j->reason = REMOVED;
      kill_session(j);
    }
    if (rung.what == 'r' && j->r.head->flags & TTY && j->from[OUT] >= 0) {
      struct window size = {rung.rows, rung.columns, 0, 0};
      sys_ioctl(j->from[OUT], TIOCSWINSZ, &size);
    }
  }
  give_input(j);
}

/** The command has ended: records that, once all that it printed is on the disk. */
static void record_end(struct job *j, u32 status) {
  struct head *h = j->r.head;
  for (int i = OUT; i <= ERR; i++)
    for (u64 before = h->streams[i].end, last = before - 1; j->from[i] >= 0 && last != h->streams[i].end && h->streams[i].end - before < DRAIN_BYTES;) {
      last = h->streams[i].end;
      if (!copy_output(j, i)) break;
    }
  for (int i = OUT; i <= ERR; i++) {
    struct stream *s = &h->streams[i];
    if (s->end < s->capacity) sys_ftruncate(j->r.data[i], s->end);
    if (s->end) sys_fdatasync(j->r.data[i]);
    s->durable = s->end;
  }
  sys_ftruncate(j->r.data[IN], 0);
  __sync_fetch_and_or(&h->streams[IN].flags, INPUT_CLOSED);
  h->ended_at = seconds(0);
  __sync_synchronize();
  h->exit = EXITED | j->reason | ((status & 127) ? (u64)(status & 127) << 8 : status >> 8 & 255);
  sys_msync(h, 4096);
  for (int i = 0; i < 3; i++) changed(&h->streams[i]);
  j->pid = 0;
}

static void reap(struct job *j) {
  u8 ignored[128];
  while (sys_read(j->signals, ignored, sizeof ignored) > 0);
  u32 status;
  for (i64 pid; (pid = sys_wait4(-1, &status, 1)) > 0;)
    if (pid == j->pid) record_end(j, status);
}

static void supervise(struct job *j) {
  u64 synced = milliseconds();
  int hung_up = 0;
  // At the end of a command, its terminal hangs up, but whoever has its pipes may still write.
  while (j->pid > 0 || (!(j->r.head->flags & TTY) && (j->from[OUT] >= 0 || j->from[ERR] >= 0))) {
    struct stream *in = &j->r.head->streams[IN];
    struct pollfd polled[5] = {
        {j->signals, POLLIN, 0},
        {j->bell, POLLIN, 0},
        {flows || hung_up || (j->pid && waits_for_reader(j->r.head, OUT)) ? -1 : j->from[OUT], POLLIN, 0},
        {flows || (j->pid && waits_for_reader(j->r.head, ERR)) ? -1 : j->from[ERR], POLLIN, 0},
        {j->to >= 0 && in->start < in->end ? j->to : -1, POLLOUT, 0},
    };
    u64 now = milliseconds();
    u64 wait = SYNC_MS;
    if (flows) wait = FLOWS_MS;
    else if (!j->pid) wait = ~0ul;
    else if (j->deadline_ms) wait = j->deadline_ms <= now ? 0 : j->deadline_ms - now < wait ? j->deadline_ms - now : wait;
    flows = 0;
    sys_poll(polled, 5, wait);
    if (polled[1].revents) answer_bell(j);
    if (polled[2].revents && !copy_output(j, OUT)) hung_up = 1;
    if (polled[3].revents) copy_output(j, ERR);
    if (polled[4].revents) give_input(j);
    if (polled[0].revents) reap(j);
    now = milliseconds();
    if (j->pid > 0 && j->deadline_ms && now >= j->deadline_ms) {
      j->reason = TIMED_OUT;
      j->deadline_ms = now + 1000;
      kill_session(j);
    }
    if (now - synced >= SYNC_MS) {
      sync_stream(&j->r, OUT);
      sync_stream(&j->r, ERR);
      synced = now;
    }
  }
  leave(0);
}

/** The program, as a shell finds it. Returns only with an error. */
static int become(char **argv, char **envp) {
  char *name = argv[0], *search = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  i64 error = -ENOENT;
  int has_slash = 0, more;
  for (char *at = name; *at; at++) has_slash |= *at == '/';
  for (char **each = envp; *each; each++)
    if ((*each)[0] == 'P' && (*each)[1] == 'A' && (*each)[2] == 'T' && (*each)[3] == 'H' && (*each)[4] == '=') search = *each + 5;
  do {
    static char path[4352];
    u64 n = 0;
    more = 0;
    if (!has_slash) {
      while (*search && *search != ':' && n < 4000) path[n++] = *search++;
      // An empty part, also the last one, is the present folder.
      more = *search != 0;
      if (more) search++;
      if (n) path[n++] = '/';
    }
    if (length(name) + n >= sizeof path) break;
    memcpy(path + n, name, length(name) + 1);
    i64 why = sys_execve(path, argv, envp);
    if (why == -ENOEXEC) {
      // A script without its first line, which a shell would run.
      char *last = argv[-1];
      argv[-1] = "/bin/sh";
      argv[0] = path;
      why = sys_execve("/bin/sh", argv - 1, envp);
      argv[-1] = last;
      argv[0] = name;
    }
    struct stat s;
    if (sys_stat_followed(path, &s) < 0 || (s.mode & 0170000) != 0100000) continue;
    // Its interpreter is missing, if it is not the file.
    error = why == -ENOENT ? -ELIBACC : why;
  } while (more);
  return (int)error;
}

/** It begins once something comes through the gate. */
__attribute__((noreturn, noinline)) static void run_command(int folder, int terminal, const int *ends, int gate, int report, char **argv, char **envp) {
  sys_setsid();
  if (terminal >= 0) sys_ioctl(terminal, TIOCSCTTY, 0);
  for (int i = 0; i < 3; i++) sys_dup2(terminal >= 0 ? terminal : ends[i], i);
  u64 none = 0;
  sys_sigprocmask(2, &none);
  for (int i = 1; i <= 64; i++) on_signal(i, BY_DEFAULT);
  sys_umask(0022);
  sys_fchdir(folder);
  if (!read_up_to(gate, &none, 1)) leave(127);
  int error = become(argv, envp);
  sys_write(report, &error, sizeof error);
  leave(127);
}
