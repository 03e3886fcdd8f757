/* Starts a program on a Cortex-M without an operating system; output goes to qemu by semihosting. */
#include "board.h"

extern uint32_t data_from[], data_to[], data_end[], bss_from[], bss_end[], stack_end[];
int main(void);

static int call(uint32_t operation, const void *argument)
{
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return (int)r0;
}

void print(const char *text)
{
    call(4, text);
}

void print_number(uint32_t value)
{
    char text[12], *at = text + 11;
    *at = 0;
    *--at = ' ';
    do *--at = (char)('0' + value % 10), value /= 10; while (value);
    print(at);
}

#define CLOCK ((volatile uint32_t *)0xe000e010) /* counts down */

void start_clock(void)
{
    CLOCK[1] = 0xffffff;
    CLOCK[2] = 0;
    CLOCK[0] = 5;
    while (!CLOCK[2]) {}
}

uint32_t clock_ticks(void)
{
    return 0xffffff - CLOCK[2];
}

#define UNUSED 0xa5a5a5a5u

uint32_t stack_bytes(void)
{
    const uint32_t *at = bss_end;
    while (*at == UNUSED) at++;
    return (uint32_t)((const char *)stack_end - (const char *)at);
}

static void stop(void)
{
    call(0x18, (const void *)0x20026);
    for (;;) {}
}

static void fault(void)
{
    print("fault");
    stop();
}

void reset(void)
{
#if defined(__ARM_FP)
    *(volatile uint32_t *)0xe000ed88 |= 0xf << 20; /* switches the floating-point unit on */
    __asm__ volatile("dsb\nisb");
#endif
    for (uint32_t *from = data_from, *to = data_to; to < data_end;) *to++ = *from++;
    for (uint32_t *to = bss_from; to < bss_end;) *to++ = 0;
    uintptr_t stack;
    __asm__ volatile("mov %0, sp" : "=r"(stack));
    for (uint32_t *to = bss_end; (uintptr_t)to < stack - 64;) *to++ = UNUSED;
    main();
    stop();
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    stack_end, (const void *)reset, (const void *)fault, (const void *)fault,
    (const void *)fault, (const void *)fault, (const void *)fault,
};
