// The program that the agent brings into a guest: it starts commands that last, and reads and controls them. Each is supervised
// by a process of its own, so it outlives the connection, the agent, and hibernation. It also serves the virtio ports to the
// host. Usage: main FOLDER OPERATION ..., main stream NONCE OPERATION ..., main serve PLACE MEMORY, or main port ssh|wake [DEVICE]
#include "sys.h"
#include "record.h"
#include "index.h"
#include "survey.h"
#include "ring.h"
#include "supervise.h"
#include "watch.h"
#include "wake.h"
#include "ports.h"

/** Of what an operation makes for the guest's users. */
static u64 usual_mask;
#include "files.h"
#include "uploads.h"
#include "entries.h"
#include "stream.h"

static u8 bytes[MOST_INPUT_BYTES];
enum { MOST_READ = 720 * KiB, MOST_FOLLOWED = 30 * KiB, MUCH = 4 * KiB - 1, FOLLOW_MS = 4, READ_MS = 20, MOST_AT_ONCE = 256 };

/** What the processes of `serve` tell each other: of each its request, and how far what it follows may go. */
struct desk { volatile i64 pid; volatile u64 tag, upto; volatile u32 is_idle, is_stopped; };
static struct desk *desks, *desk;
static i64 server;
/** The record of the present operation. */
static struct record target = {.fd = -1};

/** The folder in which commands begin, and the variables that they get. */
static int home;
static char **variables;

static int write_new(const char *path) {
  return (int)sys_open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
}
static void title_of(struct head *h, char **argv) {
  for (; *argv; argv++) {
    if (h->title_bytes && h->title_bytes < sizeof h->title) h->title[h->title_bytes++] = ' ';
    for (char *c = *argv; *c && h->title_bytes < sizeof h->title; c++) h->title[h->title_bytes++] = *c;
  }
}

/** Makes the folder under another name. 0 if the disk has no space. */
static int prepare(struct record *r, u32 flags, u64 timeout_secs, char **argv) {
  int head = write_new(path_in(r->folder, "head"));
  if (head < 0 || !reserve(head, 4096)) return 0;
  sys_close(head);
  // Its magic makes it a record.
  r->fd = (int)sys_open(path_in(r->folder, "head"), O_RDWR, 0);
  r->head = (struct head *)sys_mmap(r->fd, 4096);
  struct head *h = r->head;
  memcpy(h->magic, magic, sizeof magic);
  memcpy(h->boot, boot, sizeof boot);
  h->created_at = seconds(0);
  h->flags = flags;
  h->timeout_secs = timeout_secs;
  title_of(h, argv);
  u64 given = flags & INPUT_GIVEN ? read_given(bytes, sizeof bytes) : 0;
  for (int i = 0; i < 3; i++) {
    u64 size = i == IN ? (flags & HAS_INPUT ? given > INPUT_BYTES ? given : INPUT_BYTES : 0) : i == ERR && flags & TTY ? 0 : FIRST_BYTES;
    r->data[i] = write_new(path_in(r->folder, files[i]));
    if (r->data[i] < 0 || (size && !reserve(r->data[i], size))) return 0;
    h->streams[i].capacity = size ? size : 1;
    h->streams[i].read_at = (u32)seconds(1);
  }
  if (!(flags & HAS_INPUT)) h->streams[IN].flags = INPUT_CLOSED;
  if (flags & INPUT_GIVEN) {
    if (around(r->data[IN], &h->streams[IN], 0, bytes, given, 1) < given) return 0;
    h->streams[IN].end = given;
    h->streams[IN].flags = INPUT_ENDS;
  }
  return sys_mkfifo(path_in(r->folder, "bell")) >= 0;
}

/** The terminal's two ends. */
static int open_terminal(struct window *size, int *theirs) {
  int ours = (int)sys_open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK, 0);
  int zero = 0, n = 0;
  if (ours < 0 || sys_ioctl(ours, TIOCSPTLCK, &zero) < 0 || sys_ioctl(ours, TIOCGPTN, &n) < 0) fail("terminal");
  char path[24] = "/dev/pts/", digits[12] = "";
  join(path, 9, digits_before(digits + 11, (u64)n));
  *theirs = (int)sys_open(path, O_RDWR | O_NOCTTY, 0);
  if (*theirs < 0) fail("terminal");
  sys_ioctl(ours, TIOCSWINSZ, size);
  return ours;
}

static struct job job;

/** Starts the supervisor and the command. Returns the error of the command's start, zero if it runs. Ends the lock of all. */
static int launch(int folder, int lock, struct window *size, char **argv, char **envp) {
  struct job *j = &job;
  u32 flags = j->r.head->flags;
  int terminal = -1, ends[3] = {-1, -1, -1}, report[2], gate[2];
  j->to = j->from[IN] = j->from[OUT] = j->from[ERR] = -1;
  if (flags & TTY) {
    j->to = j->from[OUT] = open_terminal(size, &terminal);
  } else {
    for (int i = 0; i < 3; i++) {
      int pair[2];
      if (i == IN && !(flags & HAS_INPUT)) {
        ends[i] = (int)sys_open("/dev/null", O_RDONLY, 0);
        continue;
      }
      if (sys_pipe(pair, O_CLOEXEC) < 0) fail("files");
      ends[i] = pair[i != IN];
      int ours = pair[i == IN];
      sys_fcntl(ours, 4, O_NONBLOCK | (i == IN ? O_WRONLY : O_RDONLY));
      if (i == IN) j->to = ours;
      else j->from[i] = ours;
    }
  }
  j->bell = (int)sys_open(path_in(j->r.folder, "bell"), O_RDWR | O_NONBLOCK, 0);
  if (j->bell < 0 || sys_pipe(report, O_CLOEXEC) < 0 || sys_pipe(gate, O_CLOEXEC) < 0) fail("files");
  i64 supervisor = sys_fork();
  if (supervisor < 0) fail("processes");
  if (supervisor == 0) {
    // It gives no answer.
    tag = 0;
    sys_setsid();
    leave_cgroup();
    u64 all = ~0ul;
    sys_sigprocmask(2, &all);
    u64 child = 1ul << (SIG_CHLD - 1);
    j->signals = (int)sys_signalfd(&child);
    int null = (int)sys_open("/dev/null", O_RDWR, 0);
    for (int i = 0; i < 3; i++) sys_dup2(null, i);
    if (null > 2) sys_close(null);
    sys_close(lock);
    sys_close(gate[1]);
    j->pid = (int)sys_vfork();
    if (j->pid == 0) run_command(folder, terminal, ends, gate[0], report[1], argv, envp);
    sys_close(gate[0]);
    if (j->pid < 0) {
      int error = j->pid;
      sys_write(report[1], &error, sizeof error);
      leave(1);
    }
    j->r.head->pid = (u32)j->pid;
    sys_close(report[0]);
    sys_close(report[1]);
    sys_close(folder);
    if (terminal >= 0) sys_close(terminal);
    for (int i = 0; i < 3; i++) close_one(&ends[i]);
    if (j->r.head->timeout_secs) j->deadline_ms = milliseconds() + j->r.head->timeout_secs * 1000;
    give_input(j);
    // It leaves the processor to the command until there is more to copy.
    u32 priority = 0;
    sys_schedule(0, SCHED_BATCH, &priority);
    supervise(j);
  }
  // This process may wait for the command's end, so it holds none of its ends.
  for (int i = 0; i < 3; i++) {
    close_one(&ends[i]);
    if (i == IN || !(flags & TTY)) close_one(&j->from[i]);
  }
  close_one(&j->to);
  if (terminal >= 0) sys_close(terminal);
  sys_close(report[1]);
  // Its name is on the disk before it has any effect.
  sys_msync(j->r.head, 4096);
  sys_fsync(lock);
  sys_close(lock);
  sys_write(gate[1], "", 1);
  int error = 0;
  while (sys_read(report[0], &error, sizeof error) == -EINTR);
  return error;
}

/** What the command gets: the given variables in place of those of their names. */
static char **with_variables(char **given, u64 n) {
  static char *all[MOST_WORDS + MOST_INHERITED + 1];
  u64 count = 0;
  for (char **each = variables; *each && count < MOST_INHERITED; each++) {
    u64 at = 0;
    while (at < n && !same_name(*each, given[at])) at++;
    if (at == n) all[count++] = *each;
  }
  for (u64 i = 0; i < n; i++) all[count++] = given[i];
  return all;
}
/** The command's folder. A relative one begins in the home folder. */
static int folder_of(const char *path) {
  struct stat s;
  if (!*path) return home;
  int folder = (int)sys_openat(home, path, O_PATH, 0);
  if (folder < 0) fail("folder");
  if (sys_fstat(folder, &s) < 0 || (s.mode & 0170000) != 0040000) fail("file");
  return folder;
}
/** Why the command did not start. */
static const char *reason_of(int error) {
  if (error == -E2BIG) return "size";
  if (error == -EACCES) return "permission";
  if (error == -ENOENT || error == -ENOTDIR) return "program";
  return error == -ELIBACC ? "absent" : "start";
}

static void ring_bell(struct record *r, struct bell rung) {
  int bell = (int)sys_open(path_in(r->folder, "bell"), O_WRONLY | O_NONBLOCK, 0);
  if (bell < 0) return;
  sys_write(bell, &rung, sizeof rung);
  sys_close(bell);
}

/** A reader asks for what begins at the offset. */
static void note_read(struct record *r, int which, u64 offset) {
  struct head *h = r->head;
  struct stream *s = &h->streams[which];
  s->read_at = (u32)seconds(1);
  if (!(h->flags & WAITS_FOR_READER)) return;
  u64 reached = offset < s->end ? offset : s->end;
  if (reached > h->read_to[which]) h->read_to[which] = reached;
  __sync_synchronize();
  if (h->held[which]) ring_bell(r, (struct bell){.what = 'o'});
}
static int which_of(const char *name) {
  return same(name, "err") ? ERR : OUT;
}

/** Copies at most so much from the offset on. Returns how much, and where it begins: what was overwritten meanwhile is dropped. */
static u64 copy_kept(struct record *r, int which, u64 *from, u64 most) {
  u64 start, end;
  for (;;) {
    range_of(r, which, &start, &end);
    if (*from < start) *from = start;
    u64 n = *from >= end ? 0 : end - *from < most ? end - *from : most;
    n = n ? around(r->data[which], &r->head->streams[which], *from, bytes, n, 0) : 0;
    __sync_synchronize();
    range_of(r, which, &start, &end);
    if (!n && *from > end) *from = end;
    if (!n || start <= *from) return n;
    if (start >= *from + n) continue;
    u64 lost = start - *from;
    for (u64 at = lost; at < n; at++) bytes[at - lost] = bytes[at];
    *from = start;
    return n - lost;
  }
}
/** `data OFFSET COUNT`, and so many bytes. Returns the offset behind them. */
static u64 say_data(struct record *r, int which, u64 from, u64 most) {
  if (r->data[which] <= 0) r->data[which] = (int)sys_open(path_in(r->folder, files[which]), O_RDONLY, 0);
  u64 n = copy_kept(r, which, &from, most);
  say("data");
  say_field(from);
  say_field(n);
  say("\n");
  say_bytes(bytes, n);
  return from + n;
}
/** Its status; if it has ended, then what is kept of both streams. Waits at most this long for the end. */
static void say_end(struct record *r, u64 wait_ms, u64 kills) {
  u64 until = milliseconds() + wait_ms;
  if (kills) ring_bell(r, (struct bell){.what = 'k'});
  // Its input changes rarely, and at the end.
  struct stream *s = &r->head->streams[IN];
  for (;;) {
    u32 seen = s->changes;
    __sync_synchronize();
    if (state_of(r) != RUNNING || !await_until(s, seen, until)) break;
  }
  say_status(r);
  if (state_of(r) == RUNNING) return;
  for (int i = OUT; i <= ERR; i++) {
    s = &r->head->streams[i];
    u64 n = s->end < kept_of(s) ? s->end : kept_of(s);
    // What cannot be read is not left out.
    if (say_data(r, i, 0, n) < n) leave(1);
  }
}
/**
 * read ID STREAM OFFSET MOST WAIT_MS: the status, then `data OFFSET COUNT`, then the bytes.
 * follow ID STREAM OFFSET UPTO: the same again and again, in one piece each, until nothing more comes. What is behind UPTO waits for `more`.
 */
static void read_output(struct record *r, char **args, int follows) {
  int which = which_of(args[1]);
  struct stream *s = &r->head->streams[which];
  u64 offset = number(args[2]), most = number(args[3]), upto = ~0ul, until = ~0ul;
  if (follows) upto = most, most = MOST_FOLLOWED;
  else until = milliseconds() + number(args[4]);
  if (most > MOST_READ) most = MOST_READ;
  note_read(r, which, offset);
  for (;;) {
    u64 start, end;
    enum state state;
    for (;;) {
      u32 seen = s->changes;
      __sync_synchronize();
      state = state_of(r);
      range_of(r, which, &start, &end);
      if (follows && desk && (desk->is_stopped || sys_getppid() != server)) return;
      if (desk && desk->upto > upto) upto = desk->upto;
      if ((offset < end && offset < upto) || (state != RUNNING && offset >= end) || !await_until(s, seen, until)) break;
    }
    // Of a stream that flows, few large pieces cost less than many small ones.
    if (state == RUNNING && end > offset + MUCH && end < offset + most) sys_poll(NULL, 0, follows ? FOLLOW_MS : READ_MS);
    say_status(r);
    offset = say_data(r, which, offset, follows && upto - offset < most ? upto - offset : most);
    if (!follows || (state != RUNNING && offset >= end) || !flush()) return;
  }
}

/** The command is started. Its arguments: TIMEOUT COLUMNS ROWS FOLDER. */
static void start_new(const char *id, u32 flags, char **args, char **argv, char **envp) {
  struct record *r = &job.r, other;
  struct survey found;
  int folder = folder_of(args[3]);
  r->folder[0] = '.';
  memcpy(r->folder + 1, id, 37);
  struct window size = {(u16)number(args[2]), (u16)number(args[1]), 0, 0};
  int lock = lock_all();
  // Under the lock no other start prepares: what has this name is left from one that was cut off.
  remove_folder(r->folder);
  if (!make_space(2 * FIRST_BYTES + INPUT_BYTES, 1, &found) || found.running >= (flags & IS_WATCH ? MOST_WATCHES : MOST_RUNNING)) fail("many");
  if (sys_mkdir(r->folder, 0700) < 0 || !prepare(r, flags, number(args[0]), argv)) {
    remove_folder(r->folder);
    fail("space");
  }
  // Locked before it has its name, and from then on by the supervisor alone.
  sys_flock(r->fd, LOCK_EX | LOCK_NB);
  if (sys_rename(r->folder, id) < 0) {
    remove_folder(r->folder);
    if (!open_record(&other, id)) fail("space");
    return;
  }
  memcpy(r->folder, id, 37);
  int error = launch(folder, lock, &size, argv, envp);
  if (!error) return;
  remove_folder(r->folder);
  fail(reason_of(error));
}

/**
 * start ID FLAGS TIMEOUT COLUMNS ROWS FOLDER WAIT VARIABLES [NAME=VALUE ...] COMMAND ...: once. An id that is there already is only
 * shown. The input is the command's, if the flags say so. The end of a short one is waited for, for WAIT ms.
 */
static void start(char **args, u64 n) {
  u32 flags = (u32)number(args[1]);
  u64 given = number(args[7]);
  struct record earlier;
  if (flags & IS_SHORT) most_bytes = SHORT_DESKTOP_BYTES;
  if (given > n - 9) fail("usage");
  if (!open_record(&earlier, args[0])) {
    if (length(args[0]) != 36) fail("id");
    start_new(args[0], flags, args + 2, args + 8 + given, with_variables(args + 8, given));
    // The supervisor alone holds the lock on the head: this look is through another opening of the file.
    if (!open_record(&earlier, args[0])) fail("unknown");
  }
  if (flags & IS_SHORT) say_end(&earlier, number(args[6]), 0);
  else say_status(&earlier);
}

/** write ID OFFSET ENDS WAIT_MS, and the bytes as its input: `end OFFSET`, or why not. */
static void write_input(struct record *r, char **args) {
  struct stream *s = &r->head->streams[IN];
  u64 offset = number(args[1]), until = milliseconds() + number(args[3]);
  u64 n = read_given(bytes, sizeof bytes), done = 0;
  if (!(r->head->flags & HAS_INPUT)) fail("input");
  int fd = r->data[IN] = (int)sys_open(path_in(r->folder, "in"), O_RDWR, 0);
  while (sys_flock(fd, LOCK_EX) == -EINTR);
  if (offset > s->end) {
    say("gap");
    say_field(s->end);
    say("\n");
    return;
  }
  done = s->end - offset < n ? s->end - offset : n;
  while (done < n) {
    u32 seen = s->changes;
    __sync_synchronize();
    if (s->flags & (INPUT_CLOSED | INPUT_ENDS) || state_of(r) != RUNNING) fail("closed");
    u64 space = s->capacity - (s->end - s->start);
    u64 part = n - done < space ? n - done : space;
    if (part) {
      if (around(fd, s, s->end, bytes + done, part, 1) < part) fail("space");
      __sync_synchronize();
      s->end += part;
      done += part;
      ring_bell(r, (struct bell){.what = 'i'});
      continue;
    }
    if (!await_until(s, seen, until)) break;
  }
  if (done == n && number(args[2])) {
    __sync_fetch_and_or(&s->flags, INPUT_ENDS);
    ring_bell(r, (struct bell){.what = 'i'});
  }
  say("end");
  say_field(offset + done);
  say("\n");
}

static void say_running(struct record *r) {
  if (state_of(r) == RUNNING) say_status(r);
}
/** list [running]: every record, or those that run; those that have ended are then not opened again. */
static void list(int only_running) {
  struct survey found;
  if (only_running) lock_all();
  survey(&found, only_running ? say_running : say_status);
  say("all\n");
}

/** remove ID WAIT_MS: ends the command, and removes what is kept of it. */
static void remove_one(struct record *r, char **args) {
  u64 until = milliseconds() + number(args[1]);
  struct stream *s = &r->head->streams[OUT];
  while (state_of(r) == RUNNING) {
    u32 seen = s->changes;
    ring_bell(r, (struct bell){.what = 'k'});
    u64 now = milliseconds();
    if (now >= until) fail("busy");
    if (state_of(r) == RUNNING) await_change(s, seen, 200);
  }
  remove_folder(r->folder);
  say("removed\n");
}

/** watch.start ID PATH DEEP: this program, as a command that watches the folder. */
static void start_watch(char **args) {
  static char program[4096], folder[4096];
  i64 n = sys_readlink("/proc/self/exe", program, sizeof program - 1), m = sys_getcwd(folder, sizeof folder);
  if (n <= 0 || m <= 0) fail("start");
  char flags[] = {'0' + IS_WATCH, 0}, zero[] = "0", none[] = "", operation[] = "watch";
  char *words[] = {args[0], flags, zero, zero, zero, none, zero, zero, program, folder, operation, args[0], args[1], args[2], NULL};
  start(words, 13);
}

/** more ID STREAM OFFSET TAG UPTO: what follows with this tag may go on, or ends if that is zero. A reader has what is before OFFSET. */
static void let_follow(u64 of, u64 upto) {
  for (int i = 0; desks && i < MOST_AT_ONCE; i++)
    if (desks[i].tag == of) desks[i].is_stopped = !upto, desks[i].upto = upto;
}

/** An operation on one record, which leaves nothing behind but the record. False if there is none of that name. */
static int perform_on(struct record *r, const char *operation, u64 n, char **args) {
  if (same(operation, "read") && n == 5) return read_output(r, args, 0), 1;
  if (same(operation, "follow") && n == 4) return read_output(r, args, 1), 1;
  if (same(operation, "write") && n == 4) return write_input(r, args), 1;
  if (same(operation, "remove") && n == 2) return remove_one(r, args), 1;
  if (same(operation, "end") && n == 3) return say_end(r, number(args[1]), number(args[2])), 1;
  if (same(operation, "resize") && n == 3) ring_bell(r, (struct bell){'r', 0, (u16)number(args[1]), (u16)number(args[2]), 0});
  else if (same(operation, "signal") && n == 2) ring_bell(r, (struct bell){.what = 's', .signal = (u8)number(args[1])});
  else if (same(operation, "more") && n == 5) {
    note_read(r, which_of(args[1]), number(args[2]));
    changed(&r->head->streams[which_of(args[1])]);
  } else if (!same(operation, "get")) return 0;
  say_status(r);
  return 1;
}
/** Whether the words are an operation of this program. The last of them is followed by NULL. */
static int perform(char *operation, u64 n, char **args) {
  if (change_entry(operation, n, args) || change_upload(operation, n, args)) return 1;
  if (same(operation, "start") && n >= 9) start(args, n);
  else if (same(operation, "watch.start") && n == 3) start_watch(args);
  else if (same(operation, "list")) list(n == 1 && same(args[0], "running"));
  else if (n == 0) return 0;
  else {
    if (same(operation, "more") && n == 5) let_follow(number(args[3]), number(args[4]));
    if (!open_record(&target, args[0])) fail("unknown");
    if (same(operation, "watch") && n == 3) watch(&target, args);
    may_resume = desk != NULL;
    return perform_on(&target, operation, n, args);
  }
  return 1;
}
/** Goes to the folder of records, and makes it if it is missing. */
static void enter(const char *folder) {
  sys_umask(0077);
  sys_mkdir(folder, 0700);
  if (sys_chdir(folder) < 0) fail("place");
}
#include "serve.h"

extern char __bss_start[], _end[];
enum { NO_HUGE_PAGES = 15 };

EXPORTED void begin(u64 *stack) {
  u64 argc = *stack, variables_at = (u64)__bss_start & ~0xffful;
  // Each process of an operation would copy a whole one for a few bytes of its own.
  sys_madvise(variables_at, (u64)_end - variables_at, NO_HUGE_PAGES);
  char **argv = (char **)(stack + 1);
  variables = argv + argc + 1;
  on_signal(SIG_PIPE, IGNORED);
  if (argc >= 3 && same(argv[1], "port")) serve_port(argv[2], argc > 3 ? argv[3] : NULL, variables);
  usual_mask = (u64)sys_umask(0077);
  if (argc >= 4 && same(argv[1], "stream")) stream(argv[2], argv[3], argc - 4, argv + 4);
  home = (int)sys_open(".", O_PATH | O_DIRECTORY, 0);
  read_boot();
  if (argc == 4 && same(argv[1], "serve")) serve(argv[2], argv[3]);
  if (argc < 3) fail("usage");
  enter(argv[1]);
  if (same(argv[2], "check")) say("ready\n");
  else if (!perform(argv[2], argc - 3, argv + 3)) fail("usage");
  leave(0);
}
__asm__(".globl _start\n_start:\n  mov %rsp, %rdi\n  and $-16, %rsp\n  call begin\n");
