/* Functions of the floats of one register (`Part`, WIDTH floats) and of a Vector: about 1e-7 from the exact value,
 * relative or, for functions with values near one, absolute. NaN stays NaN. No branches, no tables.
 *
 * The files that include engine_variant.h define, for their registers: WIDTH; Choice, what a comparison gives;
 * ABOVE(a, b), a > b; UNKNOWN(a), a is NaN; PICK(choice, a, b), a where it holds, else b; LARGER_PART(a, b) and
 * SMALLER_PART(a, b), which give b if one is NaN; ROOT(a); and SCALED(a, power), if there is such an instruction.
 */
typedef float Part __attribute__((vector_size(4 * WIDTH), aligned(4)));
typedef int32_t PartBits __attribute__((vector_size(4 * WIDTH), aligned(4)));
typedef uint32_t PartWord __attribute__((vector_size(4 * WIDTH), aligned(4)));

#define SHIFT 12582912.0f /* 1.5 * 2^23: adding it rounds to an integer, which is in the low bits of the sum */
#define WHOLE 8388608.0f  /* 2^23: floats from here on are integers */
#define SIGN_BIT ((PartBits){0} + INT32_MIN)

INLINE Part NAME(every)(float value)
{
    return value - (Part){0};
}

INLINE Part NAME(load)(const float *from)
{
    return *(const Part *)(const void *)from;
}

INLINE void NAME(save)(float *to, Part value)
{
    *(Part *)(void *)to = value;
}

INLINE Part NAME(abs_part)(Part x)
{
    return (Part)((PartBits)x & ~SIGN_BIT);
}

INLINE Part NAME(with_sign)(Part size, Part sign)
{
    return (Part)((PartBits)size | ((PartBits)sign & SIGN_BIT));
}

INLINE Part NAME(clamp_part)(float least, float most, Part x)
{
    return SMALLER_PART(NAME(every)(most), LARGER_PART(NAME(every)(least), x));
}

/* 2^n for the integer in the low bits of SHIFT + n, -126 <= n <= 127 */
INLINE Part NAME(power_of_two)(PartWord shifted)
{
    return (Part)((shifted + (127 - 0x4B400000u)) << 23);
}

#ifndef SCALED
INLINE Part NAME(scaled)(Part x, Part n)
{
    const Part half = (n * 0.5f + SHIFT) - SHIFT;
    return x * NAME(power_of_two)((PartWord)(half + SHIFT)) * NAME(power_of_two)((PartWord)((n - half) + SHIFT));
}
#define SCALED(x, n) NAME(scaled)(x, n)
#endif

/* Splits x = n * ln 2 + rest; returns e^rest - 1. `shifted` is SHIFT + n. */
INLINE Part NAME(split_exp)(Part x, Part *shifted)
{
    *shifted = x * 1.44269504088896341f + SHIFT;
    const Part n = *shifted - SHIFT;
    const Part rest = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    Part p = rest * 0.001395049155689776f + 0.008368889801204205f;
    p = p * rest + 0.04166620597243309f;
    p = p * rest + 0.166665181517601f;
    p = p * rest + 0.5f;
    p = p * rest + 1.0f;
    return p * rest;
}

INLINE Part NAME(exp_part)(Part x)
{
    Part shifted;
    const Part p = NAME(split_exp)(NAME(clamp_part)(-104, 89, x), &shifted) + 1.0f;
    return SCALED(p, shifted - SHIFT);
}

/* e^x - 1 for x <= 0 */
INLINE Part NAME(expm1_part)(Part x)
{
    Part shifted;
    const Part p = NAME(split_exp)(LARGER_PART(NAME(every)(-30), x), &shifted);
    const Part scale = NAME(power_of_two)((PartWord)shifted);
    return p * scale + (scale - 1.0f);
}

INLINE Part NAME(log_part)(Part x)
{
    const Choice small = ABOVE(NAME(every)(1.17549435e-38f), x);
    const Part normal = PICK(small, x * WHOLE, x);
    /* normal = 2^exponent * (1 + f), 1 + f from sqrt(1/2) to sqrt(2) */
    const PartWord above = (PartWord)normal - 0x3F3504F3u;
    const PartBits exponent = (PartBits)above >> 23;
    const Part f = (Part)((above & 0x007FFFFFu) + 0x3F3504F3u) - 1.0f;
    Part n = (Part)(exponent + 0x4B400000) - SHIFT;
    n = n - PICK(small, NAME(every)(23), NAME(every)(0));
    Part p = f * -0.07634497433900833f + 0.1276157796382904f;
    p = p * f + -0.13160182535648346f;
    p = p * f + 0.14201757311820984f;
    p = p * f + -0.16623356938362122f;
    p = p * f + 0.20001226663589478f;
    p = p * f + -0.2500081956386566f;
    p = p * f + 0.3333333134651184f;
    const Part square = f * f;
    const Part low = (p * f - 0.5f) * square - n * 2.12194440e-4f;
    Part result = n * 0.693359375f + (f + low);
    result = PICK(ABOVE(x, NAME(every)(3.402823466e38f)), x, result);
    result = PICK(ABOVE(x, NAME(every)(0)), result, NAME(every)(-INFINITY));
    return PICK(ABOVE(NAME(every)(0), x), NAME(every)(NAN), PICK(UNKNOWN(x), x, result));
}

/* log(1 + x) for x in [0, 1], as 2 * atanh(x / (2 + x)) */
INLINE Part NAME(log1p_part)(Part x)
{
    const Part s = x / (x + 2.0f), z = s * s;
    Part p = z * 0.12150466442108154f + 0.10713829100131989f;
    p = p * z + 0.14308442175388336f;
    p = p * z + 0.19999438524246216f;
    p = p * z + 0.3333333730697632f;
    return 2.0f * (p * z * s + s);
}

INLINE Part NAME(erf_part)(Part x)
{
    const Part y = NAME(clamp_part)(-3.92f, 3.92f, x), z = y * y;
    Part p = z * 2.0500899609032786e-06f + 0.00028488392126746476f;
    p = p * z + 0.0037656452041119337f;
    p = p * z + 0.05274881049990654f;
    p = p * z + 0.19040703773498535f;
    p = p * z + 1.1283791065216064f;
    Part q = z * 3.809180634561926e-05f + 0.0011625434271991253f;
    q = q * z + 0.014969272539019585f;
    q = q * z + 0.11410935968160629f;
    q = q * z + 0.5020765662193298f;
    q = q * z + 1.0f;
    return NAME(clamp_part)(-1, 1, y * p / q);
}

INLINE Part NAME(tanh_part)(Part x)
{
    const Part y = NAME(clamp_part)(-9.02f, 9.02f, x), z = y * y;
    Part p = z * 1.331908716650787e-08f + 2.058349309663754e-05f;
    p = p * z + 0.00349403521977365f;
    p = p * z + 0.13379718363285065f;
    p = p * z + 1.0f;
    Part q = z * 7.762025688862195e-07f + 0.00032830939744599164f;
    q = q * z + 0.025871075689792633f;
    q = q * z + 0.4671303331851959f;
    q = q * z + 1.0f;
    return NAME(clamp_part)(-1, 1, y * p / q);
}

INLINE Part NAME(sigmoid_part)(Part x)
{
    return 1.0f / (NAME(exp_part)(-x) + 1.0f);
}

INLINE Part NAME(silu_part)(Part x)
{
    return x / (NAME(exp_part)(-x) + 1.0f);
}

/* x times the normal distribution function: 1/2 + x * a polynomial of x^2 up to |x| = 5.3, from where on it gives 0 or 1 */
INLINE Part NAME(gelu_part)(Part x)
{
    const Part t = SMALLER_PART(NAME(every)(1), x * x * 0.071199715f - 1.0f);
    Part p = t * -0.00061123474733904f + 0.0016679605469107628f;
    p = p * t + -0.0015572833362966776f;
    p = p * t + 0.001925681484863162f;
    p = p * t + -0.005319342948496342f;
    p = p * t + 0.009600144810974598f;
    p = p * t + -0.013475580140948296f;
    p = p * t + 0.018673881888389587f;
    p = p * t + -0.025221901014447212f;
    p = p * t + 0.03211849927902222f;
    p = p * t + -0.03959744796156883f;
    p = p * t + 0.0492619127035141f;
    p = p * t + -0.06651823967695236f;
    p = p * t + 0.1333925873041153f;
    return x * NAME(clamp_part)(0, 1, x * p + 0.5f);
}

INLINE Part NAME(gelu_tanh_part)(Part x)
{
    /* (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)) */
    const Part twice = x * (x * x * -0.0713548162726f + -1.5957691216057308f);
    return x / (NAME(exp_part)(twice) + 1.0f);
}

INLINE Part NAME(elu_part)(Part x, float alpha)
{
    const Part below = NAME(expm1_part)(SMALLER_PART(NAME(every)(0), x)) * alpha;
    return PICK(ABOVE(x, NAME(every)(0)), x, below);
}

INLINE Part NAME(softplus_part)(Part x)
{
    return LARGER_PART(NAME(every)(0), x) + NAME(log1p_part)(NAME(exp_part)(-NAME(abs_part)(x)));
}

/* x * tanh(log(1 + e^x)); with w = e^x (e^x + 2), the tanh is w / (w + 2) */
INLINE Part NAME(mish_part)(Part x)
{
    const Part e = NAME(exp_part)(SMALLER_PART(NAME(every)(20), x)), w = e * (e + 2.0f);
    return x * (w / (w + 2.0f));
}

/* The sine (quarter 0) or cosine (quarter 1), |x| up to FAR: beyond, the quarter is wrong. */
#define FAR 1.0e5f
INLINE Part NAME(sine_part)(Part x, uint32_t quarter)
{
    const Part shifted = x * 0.63661977236758134f + SHIFT, n = shifted - SHIFT;
    Part rest = x - n * 1.5703125f;
    rest = rest - n * 0.0004825592041015625f;
    rest = rest - n * 1.2665987014770508e-06f;
    rest = rest - n * 9.920935184482005e-10f;
    const Part z = rest * rest;
    const Part s = ((z * -0.00019516656175255775f + 0.008332173340022564f) * z + -0.16666655242443085f) * z * rest + rest;
    const Part c = ((z * 2.4437729734927416e-05f + -0.001388736185617745f) * z + 0.04166664555668831f) * z * z +
                   (1.0f - 0.5f * z);
    const PartWord turn = (PartWord)shifted + quarter, odd = -(turn & 1);
    return (Part)(((odd & (PartWord)c) | (~odd & (PartWord)s)) ^ ((turn & 2) << 30));
}

INLINE Part NAME(round_part)(Part x)
{
    const Part size = NAME(abs_part)(x);
    return PICK(ABOVE(NAME(every)(WHOLE), size), NAME(with_sign)((size + WHOLE) - WHOLE, x), x);
}

INLINE Part NAME(floor_part)(Part x)
{
    const Part near = NAME(round_part)(x);
    return PICK(ABOVE(near, x), near - 1.0f, near);
}

INLINE Part NAME(ceil_part)(Part x)
{
    return -NAME(floor_part)(-x);
}

INLINE Part NAME(sign_part)(Part x)
{
    const Part zero = NAME(every)(0);
    return PICK(ABOVE(x, zero), NAME(every)(1), PICK(ABOVE(zero, x), NAME(every)(-1), zero));
}

/* The larger one, or NaN if one is NaN */
INLINE Part NAME(max_part)(Part a, Part b)
{
    return PICK(UNKNOWN(a), a, LARGER_PART(a, b));
}

INLINE Part NAME(min_part)(Part a, Part b)
{
    return PICK(UNKNOWN(a), a, SMALLER_PART(a, b));
}

INLINE float NAME(sum_of)(Part x)
{
    float sum[WIDTH];
    NAME(save)(sum, x);
    UNROLL for (int half = WIDTH / 2; half; half /= 2) for (int i = 0; i < half; i++) sum[i] += sum[i + half];
    return sum[0];
}

/* The same functions of a Vector */
typedef union {
    Vector whole;
    Part part[LANES / WIDTH];
} NAME(Parts);

#define OF_VECTOR(function)                                                                   \
    INLINE Vector NAME(function)(Vector x)                                                    \
    {                                                                                         \
        NAME(Parts) of = {x};                                                                 \
        UNROLL for (int i = 0; i < LANES / WIDTH; i++) of.part[i] = NAME(function##_part)(of.part[i]); \
        return of.whole;                                                                      \
    }
OF_VECTOR(exp)
OF_VECTOR(log)
OF_VECTOR(erf)
OF_VECTOR(tanh)
OF_VECTOR(sigmoid)
OF_VECTOR(silu)
OF_VECTOR(gelu)
OF_VECTOR(gelu_tanh)
