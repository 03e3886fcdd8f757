/* Runs a network on each of some inputs; prints the ticks and the outputs' bits, then the stack. */
#include "board.h"
#include "network.h"
#include "inputs.h"

static network_arena arena;
static float output[NETWORK_OUTPUTS];

int main(void)
{
    for (int i = 0; i < NUM_INPUTS; i++) {
        start_clock();
        const uint32_t begin = clock_ticks();
        network_run(&arena, inputs[i], output);
        print_number((clock_ticks() - begin) & 0xffffff);
        for (int j = 0; j < NETWORK_OUTPUTS; j++) {
            union { float number; uint32_t bits; } each = {output[j]};
            print_number(each.bits);
        }
        print("\n");
    }
    print_number(stack_bytes());
    return 0;
}
