"""The functions that a program calls, in C, with NAME for the network's name."""

ENTRY = """
void NAME_one(const float *image, float *logits)
{
#if LANES > 1
    one(image, logits);
#else
    panel(image, logits);
#endif
}

#if LANES > 1
PART void sixteen(const float *images, float *logits)
{
    ALIGNED float x[NAME_INPUTS * 16], y[NAME_OUTPUTS * 16];
    for (int i = 0; i < NAME_INPUTS; i++)
        for (int b = 0; b < 16; b++) x[i * 16 + b] = images[b * NAME_INPUTS + i];
    panel(x, y);
    for (int b = 0; b < 16; b++)
        for (int i = 0; i < NAME_OUTPUTS; i++) logits[b * NAME_OUTPUTS + i] = y[i * 16 + b];
}

void NAME_panel(const float (*images)[16], float (*logits)[16])
{
    panel(images[0], logits[0]);
}
#else
void NAME_panel(const float (*images)[16], float (*logits)[16])
{
    float x[NAME_INPUTS], y[NAME_OUTPUTS];
    for (int b = 0; b < 16; b++) {
        for (int i = 0; i < NAME_INPUTS; i++) x[i] = images[i][b];
        panel(x, y);
        for (int i = 0; i < NAME_OUTPUTS; i++) logits[i][b] = y[i];
    }
}
#endif

void NAME_run(const float *images, long n, float *logits)
{
#if LANES > 1
    for (; n >= 16; n -= 16, images += 16 * NAME_INPUTS, logits += 16 * NAME_OUTPUTS) sixteen(images, logits);
#endif
    for (; n > 0; n--, images += NAME_INPUTS, logits += NAME_OUTPUTS) NAME_one(images, logits);
}
"""
