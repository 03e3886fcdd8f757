/* What a program may call on a bare Cortex-M under qemu. */
#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

void print(const char *text);
void print_number(uint32_t value);

/* Starts a clock of 24 bits; ticks are counted from then on. */
void start_clock(void);
uint32_t clock_ticks(void);

/* The most bytes of stack that were in use so far. */
uint32_t stack_bytes(void);

#endif
