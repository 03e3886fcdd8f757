"""The words of 8-bit arithmetic in C, which has no vectors: it is for processors that have none."""

WORDS = """
typedef int vec;
#define SPLAT(b) (b)
#define MAC(a, w, p) ((a) += (w) * *(p))
#define MAX(a, b) ((a) = (a) > (b) ? (a) : (b))
#define PUT_U(p, a, m) (*(p) = to_u((float)(a) * (m)))
#define PUT_S(p, a, m) (*(p) = to_s((float)(a) * (m)))
#define PUT_F(p, a, m) (*(p) = (float)(a) * (m))
#define PUT_F_RELU(p, a, m) (*(p) = (a) > 0 ? (float)(a) * (m) : 0.0f)

INLINE unsigned char to_u(float value)
{
    value = value > 0.0f ? value : 0.0f;
    return (unsigned char)(int)((value < 255.0f ? value : 255.0f) + 0.5f);
}

INLINE signed char to_s(float value)
{
    value = value > -127.0f ? value : -127.0f;
    return (signed char)((int)((value < 127.0f ? value : 127.0f) + 128.5f) - 128);
}
"""
