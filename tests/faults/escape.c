// What a command tries in order to get out of its sandbox, one attempt a run: `escape NAME ARGS…`.
// It ends with 42 where the attempt succeeded, and with 0 where it was refused, and says why on standard output.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { ESCAPED = 42, CHILDREN_MAX = 400, CHUNK = 16 << 20 };

static int told(long result) {
  if (result < 0) {
    printf("refused: %s\n", strerror(errno));
    return 0;
  }
  printf("succeeded\n");
  return ESCAPED;
}

static int try_read(const char *path) {
  char byte;
  int file = open(path, O_RDONLY);
  return told(file < 0 ? file : read(file, &byte, 1));
}

static int try_write(const char *path, int flags) {
  int file = open(path, O_WRONLY | flags, 0666);
  return told(file < 0 ? file : write(file, "escaped", 7));
}

static int try_open_for_writing(const char *path) { return told(open(path, O_WRONLY)); }

static int try_socket(int family, int type, int protocol) { return told(socket(family, type, protocol)); }

static int try_connect(const char *name, int abstract) {
  int s = socket(AF_UNIX, SOCK_STREAM, 0);
  if (s < 0) return told(s);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path + abstract, name, sizeof address.sun_path - 2);
  socklen_t size = offsetof(struct sockaddr_un, sun_path) + abstract + strlen(name) + !abstract;
  return told(connect(s, (struct sockaddr *)&address, size));
}

static int try_tcp(int port) {
  int s = socket(AF_INET, SOCK_STREAM, 0);
  if (s < 0) return told(s);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(0x7f000001)};
  return told(connect(s, (struct sockaddr *)&address, sizeof address));
}

static int try_memory_of(pid_t pid) {
  char here[8];
  struct iovec local = {here, sizeof here}, remote = {(void *)0x400000, sizeof here};
  long result = process_vm_readv(pid, &local, 1, &remote, 1, 0);
  // Another address may be mapped; the right to ask is what counts.
  return told(result < 0 && errno == EFAULT ? 0 : result);
}

static int try_pidfd(pid_t pid) {
  int handle = syscall(SYS_pidfd_open, pid, 0);
  return told(handle < 0 ? handle : syscall(SYS_pidfd_send_signal, handle, SIGKILL, 0, 0));
}

static int try_clone(int flags) {
  pid_t child = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
  if (child == 0) _exit(0);
  return told(child);
}

static int try_descriptors(void) {
  for (int number = 3; number < 1024; number++)
    if (fcntl(number, F_GETFD) >= 0) {
      printf("%d is open\n", number);
      return ESCAPED;
    }
  return 0;
}

static int try_capabilities(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2] = {{0}};
  if (syscall(SYS_capget, &header, data) < 0) return 0;
  printf("%x %x\n", data[0].effective, data[1].effective);
  return data[0].effective || data[1].effective || !prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) ? ESCAPED : 0;
}

static int try_many_processes(void) {
  int started = 0;
  while (started < CHILDREN_MAX) {
    pid_t child = fork();
    if (child < 0) break;
    if (child == 0) {
      alarm(20);
      pause();
      _exit(0);
    }
    started++;
  }
  printf("%d processes\n", started);
  fflush(stdout);
  return started >= CHILDREN_MAX ? ESCAPED : 0;
}

static int try_memory(long bytes, int flags) {
  for (long taken = 0; taken < bytes; taken += CHUNK) {
    char *chunk = mmap(0, CHUNK, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    if (chunk == MAP_FAILED) return told(-1);
    memset(chunk, 1, CHUNK);
  }
  return ESCAPED;
}

static int try_large_file(const char *path, long bytes) {
  signal(SIGXFSZ, SIG_IGN);
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (file < 0) return told(file);
  static char block[65536];
  for (long done = 0; done < bytes; done += sizeof block)
    if (write(file, block, sizeof block) < (long)sizeof block) return told(-1);
  return ESCAPED;
}

// Leaves its session and its parent, and would leave a mark when it is still there after a while.
static int try_surviving(const char *mark) {
  if (fork() == 0) {
    setsid();
    if (fork() == 0) {
      signal(SIGTERM, SIG_IGN);
      sleep(4);
      close(open(mark, O_WRONLY | O_CREAT, 0666));
      _exit(0);
    }
    _exit(0);
  }
  sleep(60);
  return 0;
}

static int is(const char *a, const char *b) { return strcmp(a, b) == 0; }

int main(int count, char **words) {
  const char *name = count > 1 ? words[1] : "", *a = count > 2 ? words[2] : "", *b = count > 3 ? words[3] : "";
  pid_t pid = atoi(a);
  if (is(name, "read")) return try_read(a);
  if (is(name, "write")) return try_write(a, O_APPEND);
  if (is(name, "create")) return try_write(a, O_CREAT);
  if (is(name, "open-for-writing")) return try_open_for_writing(a);
  if (is(name, "truncate")) return told(truncate(a, 0));
  if (is(name, "rename")) return told(rename(a, b));
  if (is(name, "link")) return told(link(a, b));
  if (is(name, "unlink")) return told(unlink(a));
  if (is(name, "mkdir")) return told(mkdir(a, 0777));
  if (is(name, "chmod")) return told(chmod(a, 0777));
  if (is(name, "chown")) return told(chown(a, getuid(), getgid()));
  if (is(name, "touch")) return told(utimensat(AT_FDCWD, a, 0, 0));
  if (is(name, "xattr")) return told(setxattr(a, "user.escaped", "1", 1, 0));
  if (is(name, "link-and-read")) return symlink(a, b) < 0 ? told(-1) : try_read(b);
  if (is(name, "mknod")) return told(mknod(a, S_IFCHR | 0666, 0x101));
  if (is(name, "inet")) return try_socket(AF_INET, SOCK_STREAM, 0);
  if (is(name, "inet-datagram")) return try_socket(AF_INET, SOCK_DGRAM, 0);
  if (is(name, "inet6")) return try_socket(AF_INET6, SOCK_STREAM, 0);
  if (is(name, "raw")) return try_socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
  if (is(name, "netlink")) return try_socket(AF_NETLINK, SOCK_RAW, 0);
  if (is(name, "packet")) return try_socket(AF_PACKET, SOCK_RAW, 0);
  if (is(name, "vsock")) return try_socket(AF_VSOCK, SOCK_STREAM, 0);
  if (is(name, "alg")) return try_socket(AF_ALG, SOCK_SEQPACKET, 0);
  if (is(name, "unix")) return try_connect(a, 0);
  if (is(name, "abstract")) return try_connect(a, 1);
  if (is(name, "tcp")) return try_tcp(pid);
  if (is(name, "kill")) return told(kill(pid, SIGKILL));
  if (is(name, "pidfd")) return try_pidfd(pid);
  if (is(name, "ptrace")) return told(ptrace(PTRACE_SEIZE, pid, 0, 0));
  if (is(name, "traceme")) return told(ptrace(PTRACE_TRACEME, 0, 0, 0));
  if (is(name, "memory-of")) return try_memory_of(pid);
  if (is(name, "mount")) return told(mount("none", a, "tmpfs", 0, ""));
  if (is(name, "umount")) return told(umount2(a, MNT_DETACH));
  if (is(name, "chroot")) return told(chroot(a));
  if (is(name, "unshare-user")) return told(unshare(CLONE_NEWUSER));
  if (is(name, "unshare-mount")) return told(unshare(CLONE_NEWNS));
  if (is(name, "unshare-net")) return told(unshare(CLONE_NEWNET));
  if (is(name, "clone-user")) return try_clone(CLONE_NEWUSER);
  if (is(name, "setuid")) return told(getuid() == 0 ? -1 : setuid(0));
  if (is(name, "sethostname")) return told(sethostname("escaped", 7));
  if (is(name, "io_uring")) return told(syscall(425, 4, (char[120]){0}));
  if (is(name, "bpf")) return told(syscall(SYS_bpf, 0, (char[128]){0}, 48));
  if (is(name, "perf")) return told(syscall(SYS_perf_event_open, (char[128]){0}, 0, -1, -1, 0));
  if (is(name, "userfaultfd")) return told(syscall(SYS_userfaultfd, 1));
  if (is(name, "keyctl")) return told(syscall(SYS_keyctl, 0, -3, 1));
  if (is(name, "handle")) return told(syscall(SYS_open_by_handle_at, AT_FDCWD, (char[128]){8}, O_RDONLY));
  if (is(name, "descriptors")) return try_descriptors();
  if (is(name, "capabilities")) return try_capabilities();
  if (is(name, "environment")) return getenv(a) ? ESCAPED : 0;
  if (is(name, "processes")) return try_many_processes();
  if (is(name, "memory")) return try_memory(atol(a), MAP_PRIVATE);
  if (is(name, "shared-memory")) return try_memory(atol(a), MAP_SHARED);
  if (is(name, "large-file")) return try_large_file(a, atol(b));
  if (is(name, "survive")) return try_surviving(a);
  if (is(name, "nothing")) return 0;
  fprintf(stderr, "unknown attempt %s\n", name);
  return 2;
}
