/* The guest's only program besides busybox. Writes numbered blocks to /dev/vda with direct I/O and fsync, reads
 * older ones back all the time, and says on the console:
 *   HB N       block N is written and synced
 *   BAD …      a read gave something else than what was written; the guest stops there
 * Block N lies at slot N modulo the number of slots and holds its number and a pattern that follows from it. The last
 * block of the disk is nobody's: tests try to write there what must not come through. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <linux/fs.h>
#include <time.h>
#include <unistd.h>

enum { kBlock = 4096, kWords = kBlock / 8 };

static void fill(uint64_t *block, uint64_t number) {
  uint64_t state = number * 0x9e3779b97f4a7c15u + 1;
  block[0] = number;
  for (int i = 1; i < kWords; ++i) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    block[i] = state;
  }
}

static void stop(const char *what, uint64_t number, uint64_t found) {
  printf("BAD %s N %" PRIu64 " found %" PRIu64 ": %s\n", what, number, found, strerror(errno));
  for (;;) pause();
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  char line[64];
  printf("READY\n");
  /* The state is saved here: what follows happens with the volume of the day. "go" or "go PAUSE_IN_MICROSECONDS". */
  do {
    if (fgets(line, sizeof line, stdin) == NULL) stop("console", 0, 0);
  } while (strncmp(line, "go", 2) != 0);
  const long pause_us = strtol(line + 2, NULL, 10);
  const int disk = open("/dev/vda", O_RDWR | O_DIRECT);
  uint64_t bytes = 0;
  if (disk < 0 || ioctl(disk, BLKGETSIZE64, &bytes) != 0) stop("open", 0, 0);
  const uint64_t slots = bytes / kBlock - 1;
  uint64_t *block = NULL, *seen = NULL, *wanted = NULL;
  if (posix_memalign((void **)&block, kBlock, kBlock) || posix_memalign((void **)&seen, kBlock, kBlock) ||
      posix_memalign((void **)&wanted, kBlock, kBlock))
    stop("memory", 0, 0);
  uint64_t dice = 88172645463325252u;
  for (uint64_t number = 1;; ++number) {
    fill(block, number);
    if (pwrite(disk, block, kBlock, (off_t)(number % slots) * kBlock) != kBlock) stop("write", number, 0);
    if (fsync(disk) != 0) stop("fsync", number, 0);
    printf("HB %" PRIu64 "\n", number);
    /* The newest, and two older ones by chance. */
    const uint64_t reach = number < slots ? number : slots;
    for (int i = 0; i < 3; ++i) {
      dice ^= dice << 13, dice ^= dice >> 7, dice ^= dice << 17;
      const uint64_t older = i == 0 ? number : number - dice % reach;
      if (pread(disk, seen, kBlock, (off_t)(older % slots) * kBlock) != kBlock) stop("read", older, 0);
      fill(wanted, older);
      errno = 0;
      if (memcmp(seen, wanted, kBlock) != 0) stop("data", older, seen[0]);
    }
    if (pause_us > 0) {
      const struct timespec nap = {pause_us / 1000000, pause_us % 1000000 * 1000};
      nanosleep(&nap, NULL);
    }
  }
}
