// Operations whose input or output is the bytes of a file, each on a channel of its own. A login shell may have printed something
// before: the line with the nonce says where the output begins. If the connection is lost, so is the input, and the program ends.
__attribute__((noreturn)) static void stream(const char *nonce, const char *operation, u64 n, char **args) {
  on_signal(SIG_FILE_SIZE, IGNORED);
  is_stream = 1;
  sys_umask(usual_mask);
  read_boot();
  say("dormouse-");
  say(nonce);
  say(" began");
  say_field((u64)sys_getpid());
  say("\n");
  flush();
  if (same(operation, "file.read") && n == 1) read_file(args);
  else if (same(operation, "file.write") && n == 3) write_file(args);
  else if (same(operation, "upload.append") && n == 3) append_upload(args);
  else if (same(operation, "sweep")) sweep();
  else fail("usage");
  leave(0);
}
