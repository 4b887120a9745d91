/* Makes pairs of names trade places, as fast as it can, until its standard input is closed.
   usage: swapper COUNTER NAME OTHER [NAME OTHER]...   the number of swaps so far stands in the file COUNTER */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int count, char **names) {
    int file = count > 3 ? open(names[1], O_RDWR) : -1;
    volatile uint64_t *swaps = file < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (swaps == MAP_FAILED) return 2;
    struct pollfd input = {0, POLLIN, 0};
    while (poll(&input, 1, 0) == 0)
        for (int round = 0; round < 64; round++)
            for (int at = 2; at + 1 < count; at += 2) {
                if (renameat2(AT_FDCWD, names[at], AT_FDCWD, names[at + 1], RENAME_EXCHANGE)) {
                    perror("renameat2");
                    return 1;
                }
                ++*swaps;
            }
    return 0;
}
