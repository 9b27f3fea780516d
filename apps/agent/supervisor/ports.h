// The guest's end of SSH over a virtio port: runs the image's own SSH server on it, one after another.
//
// If the host closes the port and opens it again, the guest may not notice, and the first bytes may reach the server of the
// connection before. So SSH starts only after a handshake: the guest sends HELLO, the host sends "RST <nonce>" until it reads
// "RDY <nonce>", and then sends "GO <nonce>". Nothing is read beyond that line.
enum { MOST_WORD = 63, NONCE_BYTES = 64, HOST_KEY_TRIES = 50 };

static const char *const host_key = "/etc/ssh/ssh_host_ed25519_key";
static const char *const config_path = "/run/dormouse/sshd_config";
/** For the host's port alone. A server that the image runs on its network keeps its own. */
static const char config[] =
    "HostKey /etc/ssh/ssh_host_ed25519_key\n"
    "AuthorizedKeysFile /etc/dormouse/authorized_keys /run/dormouse/authorized_keys\n"
    "AuthenticationMethods publickey\n"
    "PermitRootLogin prohibit-password\n"
    "PasswordAuthentication no\n"
    "KbdInteractiveAuthentication no\n"
    "UsePAM no\n"
    "UseDNS no\n"
    "StrictModes no\n"
    "MaxSessions 100\n"
    "LoginGraceTime 30\n"
    "ClientAliveInterval 15\n"
    "ClientAliveCountMax 3\n"
    // Debian's bash runs root's .bashrc for each command that seems to come over the network, unless SHLVL says it is nested.
    "SetEnv SHLVL=1\n"
    "PrintMotd no\n"
    "PrintLastLog no\n"
    "PidFile none\n";

/** Undone for each SSH server: a program that is started inherits what is ignored. */
static void default_signals(void) {
  u64 by_default[4] = {0, 0, 0, 0};
  sys_sigaction(SIG_PIPE, by_default);
}
/** Runs the first of these programs that exists, and returns its exit status; -1 if there is none. */
static i64 run_first(const char *const *paths, const char **argv, char **envp, int port) {
  i64 pid = sys_fork();
  if (pid < 0) return -1;
  if (pid == 0) {
    int null = (int)sys_open("/dev/null", O_RDWR, 0);
    sys_dup2(port >= 0 ? port : null, 0);
    sys_dup2(port >= 0 ? port : null, 1);
    sys_dup2(null, 2);
    default_signals();
    for (; *paths; paths++) {
      argv[0] = *paths;
      sys_execve(*paths, argv, envp);
    }
    sys_exit(127);
  }
  u32 status = 0;
  while (sys_wait4(pid, &status, 0) == -EINTR);
  return status;
}

static int has_bytes(const char *path) {
  struct stat s;
  return sys_stat_followed(path, &s) >= 0 && s.size > 0;
}
/** The distribution makes it at the first boot. */
static void await_host_key(char **envp) {
  static const char *const paths[] = {"/usr/bin/ssh-keygen", "/bin/ssh-keygen", "/usr/local/bin/ssh-keygen", NULL};
  for (int tries = 0; !has_bytes(host_key); tries++) {
    pause_for(0, second / 5);
    const char *argv[] = {NULL, "-q", "-t", "ed25519", "-N", "", "-f", host_key, NULL};
    if (tries >= HOST_KEY_TRIES) run_first(paths, argv, envp, -1);
  }
}
static void write_config(void) {
  int fd = (int)sys_open(config_path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
  if (fd < 0) return;
  sys_write(fd, config, sizeof config - 1);
  sys_close(fd);
}

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
__attribute__((noreturn)) static void hold_ssh_port(const char *path, char **envp) {
  static const char *const servers[] = {"/usr/sbin/sshd", "/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd", NULL};
  sys_mkdir("/run/sshd", 0755);
  for (;;) {
    // Opened again for each server: the one before left it non-blocking.
    int port = open_port(path);
    if (agree(port)) {
      await_host_key(envp);
      write_config();
      const char *argv[] = {NULL, "-i", "-f", config_path, NULL};
      run_first(servers, argv, envp, port);
    } else if (port == 0) leave(0);
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
    keep_from_oom();
  }
  if (is_wake) wait_for_wakes(device ? device : "/dev/virtio-ports/org.dormouse.wake.0");
  hold_ssh_port(device ? device : "/dev/virtio-ports/org.dormouse.ssh.0", envp);
}
