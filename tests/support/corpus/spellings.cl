/* Spellings of kernels that few write and all compilers take: `void kernel`, a type in two words of which a macro is one, halves of
   vectors, braces behind a cast, structures of three components and a scalar, constant structures with and without all braces.
   run: turn --global 64 --local 32 uchar:4096 64=random(-1,1) 1,2,3,4 64 64=random(-2000000000,2000000000)
   tolerance: 1e-5
*/
#define WORD int
#define CLOSER(a, b) min((a), (b))

struct Hit {
    float3 place;
    uint of;
    double along;
    float shade[3];
};

typedef struct disc {
    float radius;
    float4 middle;
} disc_t;

__constant disc_t discs[] = {{2.5f, {1.0f + .5f, 4.f, 8.f, 0.f}}, {.25f, (float4)(1, 0, -1, 2)}, {1.f}};

unsigned WORD mirrored(unsigned WORD word) {
    unsigned WORD other = word, left = sizeof(word) * 8 - 1;
    while (word >>= 1) other = other << 1 | word & 1, left--;
    return word = other << left;
}

inline float2 times(float2 a, float2 b) { return (float2){a.even * b.even - a.odd * b.odd, a.odd * b.even + a.even * b.odd}; }

void kernel turn(global struct Hit *hits, __global float2 *pairs, const float4 from, global unsigned WORD *bits, global const WORD *words) {
    const int i = get_global_id(0);
    const struct Hit none = {(float3)(1, 2, 3), i, 0, {.5f}};
    global struct Hit *hit = &hits[i];
    pairs[i] = times(pairs[i], (float2){half_cos(i * .1f), half_sin(i * .1f)});
    *hit = none;
    hit->along = discs[i % 3].radius * i;
    hit->place.zx = discs[i % 3].middle.even - from.odd;
    hit->shade[i % 3] += CLOSER(hit->along, 2.5);
    pairs[i] += length(discs[i % 3].middle - from);
    hit->of = (uint)sizeof(struct Hit) << 8 | sizeof(disc_t);
    bits[i] = mirrored((unsigned WORD)words[i]);
}
