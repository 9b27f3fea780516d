// The guest's end of SSH over a virtio port: runs the image's own SSH server on it, one after another.
//
// If the host closes the port and opens it again, the guest may not notice, and the first bytes may reach the server of the
// connection before. So SSH starts only after a handshake: the guest sends HELLO, the host sends "RST <nonce>" until it reads
// "RDY <nonce>", and then sends "GO <nonce>". Nothing is read beyond that line.
enum { MOST_WORD = 63 };

/** The next word of a line and the one after it, cut at their most. False if the host is gone, or the port. */
static int read_line(int port, char *word, char *value) {
  char *to = word, *from = word;
  for (;;) {
    char c;
    i64 n = sys_read(port, &c, 1);
    if (n == -EINTR) continue;
    if (n <= 0) return 0;
    if (c == '\n') break;
    if (c == ' ' && from == word) {
      *to = 0;
      to = from = value;
    } else if (to - from < MOST_WORD) *to++ = c;
  }
  *to = 0;
  if (from == word) *value = 0;
  return 1;
}
/** True once the next bytes belong to SSH. */
static int agree(int port) {
  char agreed[MOST_WORD + 1] = "", word[MOST_WORD + 1], value[MOST_WORD + 1];
  answer_fd = port;
  // Blocks here until a host opens the port.
  say("\nHELLO\n");
  if (!flush()) return 0;
  while (read_line(port, word, value)) {
    if (same(word, "GO") && *agreed && same(agreed, value)) return 1;
    if (!same(word, "RST")) continue;
    memcpy(agreed, value, sizeof agreed);
    say("RDY ");
    say(value);
    say("\n");
    if (!flush()) return 0;
  }
  return 0;
}

/** Runs the first SSH server that exists, until it ends. Its configuration was brought in with this program. */
static void run_server(int port, char **envp) {
  static char *servers[] = {"/usr/sbin/sshd", "/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd", NULL};
  i64 pid = sys_fork();
  if (pid == 0) {
    int null = (int)sys_open("/dev/null", O_RDWR, 0);
    for (int i = 0; i < 3; i++) sys_dup2(i < 2 ? port : null, i);
    on_signal(SIG_PIPE, BY_DEFAULT);
    for (char **each = servers; *each; each++) {
      char *argv[] = {*each, "-i", "-f", "/run/dormouse/sshd_config", NULL};
      sys_execve(*each, argv, envp);
    }
    sys_exit(127);
  }
  while (pid > 0 && sys_wait4(pid, NULL, 0) == -EINTR);
}
__attribute__((noreturn)) static void hold_ssh_port(const char *path, char **envp) {
  sys_mkdir("/run/sshd", 0755);
  for (;;) {
    // Opened again for each server: the one before left it non-blocking.
    int port = open_port(path);
    if (agree(port)) run_server(port, envp);
    else if (port == 0) leave(0);
    else pause_for(0, second / 10);
    sys_close(port);
  }
}

/** Serves a port for as long as the guest runs. Ends at once if another process does, unless the device is given, as by tests. */
__attribute__((noreturn)) static void serve_port(const char *which, const char *device, char **envp) {
  int is_wake = same(which, "wake");
  // It must not pass to what is started.
  sys_umask(0022);
  sys_mkdir("/run/dormouse", 0755);
  if (!device) {
    int lock = (int)sys_open(is_wake ? "/run/dormouse/wake.lock" : "/run/dormouse/ssh.lock", O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    if (lock < 0 || sys_flock(lock, LOCK_EX | LOCK_NB) < 0) leave(0);
    sys_setsid();
    leave_cgroup();
    // A guest that runs out of memory stays reachable. Commands undo this for themselves.
    put("/proc/self/oom_score_adj", "-900");
  }
  if (is_wake) wait_for_wakes(device ? device : "/dev/virtio-ports/org.dormouse.wake.0");
  hold_ssh_port(device ? device : "/dev/virtio-ports/org.dormouse.ssh.0", envp);
}
