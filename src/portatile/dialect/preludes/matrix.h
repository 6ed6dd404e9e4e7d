/* Matrix multiply-add by a sub-group, shaped like the draft cl_khr_cooperative_matrix: load a fragment, multiply and add, store.

   A fragment is 16 lines of 32 bytes along k, spread over the MATRIX_LANES work-items of a sub-group, which take every step together:
   16 x 16 elements of 2 bytes, 16 x 8 of 4, 16 x 32 of 1. Lowered to ldmatrix and mma.sync on NVIDIA from compute capability 8.0,
   to WMMA on AMD's gfx11, to plain arithmetic elsewhere (where each work-item takes by itself what its sums need).

   MATRIX_LANES                              work-items of a sub-group: lane = local id % MATRIX_LANES
   matrix_a, matrix_b                        fragments: 16 rows of op(A), 16 columns of op(B)
   matrix_f32, matrix_s32                    16 x 16 sums; element e of a lane, e < MATRIX_ELEMENTS, is .r[e] and lies in row
   MATRIX_ROW(lane, e), MATRIX_COLUMN(lane, e)
   MATRIX_CLEAR(c)                           sums become 0
   MATRIX_AT(row, chunk)                     where chunk 0 .. 7 of a row lies in a tile, in bytes: a tile is rows of 128 bytes, and the
                                             16-byte chunks of a row are exchanged so that eight rows' loads use all banks of local memory
   MATRIX_LOAD_A(f, tile, row, chunk, lane)  f = 16 rows from `row` on of a tile whose rows lie along k, and its chunks `chunk`, `chunk` + 1
   MATRIX_LOAD_A_T(f, tile, k, chunk, lane)  the same of 2-byte elements where a row of the tile is one k, and a chunk eight rows of op(A):
                                             k .. k + 15, chunks `chunk` and `chunk` + 1
   MATRIX_LOAD_B, MATRIX_LOAD_B_T            of columns of op(B)
   MATRIX_MULTIPLY_ADD_F16(c, a, b)          c += a b: half, bfloat16, float with the 10 fraction bits of TF32, signed bytes; the first
   MATRIX_MULTIPLY_ADD_BF16, _TF32           three add to a matrix_f32, the last one to a matrix_s32, modulo
   MATRIX_MULTIPLY_ADD_S8                    2**32
   MATRIX_MULTIPLY_ADD_E4M3, _E5M2           of floats of eight bits, of whose sums NVIDIA's units keep 14 bits: compute capability 8.9
   MATRIX_MULTIPLY_ADD_E4M3_AS_F16, _E5M2_AS_F16    the same by instructions for halves, on devices without those, NVIDIA's from 8.0 on
   MATRIX_STORE_F32(c, p, pitch, lane)       to rows of `pitch` elements from the __local pointer p on, aligned to 8 bytes
   MATRIX_STORE_S32
   MATRIX_PAIR_F16(x, y), MATRIX_PAIR_BF16   two floats rounded to nearest even, x in the low half of a uint
   MATRIX_LOW_F16(w), MATRIX_HIGH_F16(w)     a half of a uint as a float; MATRIX_LOW_BF16, MATRIX_HIGH_BF16
*/
#define MATRIX_AT(row, chunk) (((row) << 7) + ((((chunk) ^ (row)) & 7) << 4))
#define MATRIX_CLEAR(c) \
  ((c).r[0] = 0, (c).r[1] = 0, (c).r[2] = 0, (c).r[3] = 0, (c).r[4] = 0, (c).r[5] = 0, (c).r[6] = 0, (c).r[7] = 0)

/* halves and bfloat16s of a word as floats, and floats as them, by bits: exact, to nearest even, on every device */
static inline float portatile_from_f16(uint h) {
  const uint a = h & 0x7fffu, sign = (h & 0x8000u) << 16;
  const float small = (float)a * 0x1.0p-24f;
  return as_float(sign | (a < 0x400u ? as_uint(small) : a < 0x7c00u ? (a << 13) + 0x38000000u : (a << 13) | 0x7f800000u));
}
#define MATRIX_LOW_F16(w) portatile_from_f16((w) & 0xffffu)
#define MATRIX_HIGH_F16(w) portatile_from_f16((w) >> 16)
#define MATRIX_LOW_BF16(w) as_float((w) << 16)
#define MATRIX_HIGH_BF16(w) as_float((w) & 0xffff0000u)

/* of a word of four floats of eight bits, the upper bytes of whose halves are given, the two as halves; exact. PORTATILE_TIMES_256 of two halves */
#define PORTATILE_F16_OF_E5M2(x) ((x) & 0xff00ff00u)
#define PORTATILE_F16_OF_E4M3(x) \
  (PORTATILE_TIMES_256(((x) & 0x80008000u) | ((x) & 0x7f007f00u) >> 1) | (((((x) & 0x7f007f00u) >> 1) + 0x00800080u) >> 14 & 0x00010001u) * 0x7e00u)

#if defined(PORTATILE_NVIDIA) && (!defined(PORTATILE_SM) || PORTATILE_SM >= 80)

#define HAVE_MATRIX 1
#define MATRIX_LANES 32
#define MATRIX_ELEMENTS 8
#define MATRIX_ROW(lane, e) ((lane) / 4 + (e) / 2 % 2 * 8)
#define MATRIX_COLUMN(lane, e) ((lane) % 4 * 2 + (e) % 2 + (e) / 4 * 8)
typedef struct { uint r[4]; } matrix_a;
typedef struct { uint r[4]; } matrix_b;
typedef struct { float r[8]; } matrix_f32;
typedef struct { uint r[8]; } matrix_s32;

#define PORTATILE_MATRIX_LOAD(mode, f, address) \
  asm volatile("ldmatrix.sync.aligned.m8n8.x4" mode ".shared.b16 {%0, %1, %2, %3}, [%4];" \
               : "=r"((f).r[0]), "=r"((f).r[1]), "=r"((f).r[2]), "=r"((f).r[3]) : "r"(address) : "memory")
#define MATRIX_LOAD_A(f, tile, row, chunk, lane) \
  PORTATILE_MATRIX_LOAD("", f, LOCAL_ADDRESS(tile) + MATRIX_AT((row) + (lane) % 16, (chunk) + (lane) / 16))
#define MATRIX_LOAD_A_T(f, tile, k, chunk, lane) \
  PORTATILE_MATRIX_LOAD(".trans", f, LOCAL_ADDRESS(tile) + MATRIX_AT((k) + (lane) / 16 * 8 + (lane) % 8, (chunk) + (lane) / 8 % 2))
#define MATRIX_LOAD_B(f, tile, row, chunk, lane) MATRIX_LOAD_A(f, tile, row, chunk, lane)
#define MATRIX_LOAD_B_T(f, tile, k, chunk, lane) MATRIX_LOAD_A_T(f, tile, k, chunk, lane)

/* two instructions of 16 x 8 */
#define PORTATILE_MATRIX_HALF(name, letter, c, a, b, from, column) \
  asm volatile("mma.sync.aligned." name " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
               : "+" letter((c).r[from]), "+" letter((c).r[from + 1]), "+" letter((c).r[from + 2]), "+" letter((c).r[from + 3]) \
               : "r"((a).r[0]), "r"((a).r[1]), "r"((a).r[2]), "r"((a).r[3]), "r"((b).r[column]), "r"((b).r[column + 2]))
#define PORTATILE_MATRIX(name, letter, c, a, b) \
  do { \
    PORTATILE_MATRIX_HALF(name, letter, c, a, b, 0, 0); \
    PORTATILE_MATRIX_HALF(name, letter, c, a, b, 4, 1); \
  } while (0)
#define MATRIX_MULTIPLY_ADD_F16(c, a, b) PORTATILE_MATRIX("m16n8k16.row.col.f32.f16.f16.f32", "f", c, a, b)
#define MATRIX_MULTIPLY_ADD_BF16(c, a, b) PORTATILE_MATRIX("m16n8k16.row.col.f32.bf16.bf16.f32", "f", c, a, b)
#define MATRIX_MULTIPLY_ADD_TF32(c, a, b) PORTATILE_MATRIX("m16n8k8.row.col.f32.tf32.tf32.f32", "f", c, a, b)
#define MATRIX_MULTIPLY_ADD_S8(c, a, b) PORTATILE_MATRIX("m16n8k32.row.col.s32.s8.s8.s32", "r", c, a, b)
#define MATRIX_MULTIPLY_ADD_E4M3(c, a, b) PORTATILE_MATRIX("m16n8k32.row.col.f32.e4m3.e4m3.f32", "f", c, a, b)
#define MATRIX_MULTIPLY_ADD_E5M2(c, a, b) PORTATILE_MATRIX("m16n8k32.row.col.f32.e5m2.e5m2.f32", "f", c, a, b)

/* a word's bytes 0 and 2 are k and k + 1 of an instruction of half the depth, its bytes 1 and 3 k + 8 and k + 9: alike in A and B */
static inline uint portatile_times_256(uint h) { uint v; asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(v) : "r"(h), "r"(0x5c005c00u)); return v; }
#define PORTATILE_TIMES_256(h) portatile_times_256(h)
#define PORTATILE_MATRIX_AS_F16(type, c, a, b) \
  do { \
    for (int portatile_h = 0; portatile_h < 4; portatile_h += 2) { \
      const matrix_a portatile_a = {{type((a).r[portatile_h] << 8), type((a).r[portatile_h + 1] << 8), \
                                     type((a).r[portatile_h]), type((a).r[portatile_h + 1])}}; \
      const matrix_b portatile_b = {{type((b).r[portatile_h] << 8), type((b).r[portatile_h + 1] << 8), \
                                     type((b).r[portatile_h]), type((b).r[portatile_h + 1])}}; \
      MATRIX_MULTIPLY_ADD_F16(c, portatile_a, portatile_b); \
    } \
  } while (0)
#define MATRIX_MULTIPLY_ADD_E4M3_AS_F16(c, a, b) PORTATILE_MATRIX_AS_F16(PORTATILE_F16_OF_E4M3, c, a, b)
#define MATRIX_MULTIPLY_ADD_E5M2_AS_F16(c, a, b) PORTATILE_MATRIX_AS_F16(PORTATILE_F16_OF_E5M2, c, a, b)

#define PORTATILE_MATRIX_STORE_2(T2, c, p, pitch, lane, e) \
  *(__local T2*)((p) + MATRIX_ROW(lane, e) * (pitch) + MATRIX_COLUMN(lane, e)) = (T2)((c).r[e], (c).r[e + 1])
#define PORTATILE_MATRIX_STORE(T2, c, p, pitch, lane) \
  do { \
    PORTATILE_MATRIX_STORE_2(T2, c, p, pitch, lane, 0); \
    PORTATILE_MATRIX_STORE_2(T2, c, p, pitch, lane, 2); \
    PORTATILE_MATRIX_STORE_2(T2, c, p, pitch, lane, 4); \
    PORTATILE_MATRIX_STORE_2(T2, c, p, pitch, lane, 6); \
  } while (0)
#define MATRIX_STORE_F32(c, p, pitch, lane) PORTATILE_MATRIX_STORE(float2, c, p, pitch, lane)
#define MATRIX_STORE_S32(c, p, pitch, lane) PORTATILE_MATRIX_STORE(uint2, c, p, pitch, lane)

static inline uint portatile_pair_f16(float x, float y) { uint v; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(y), "f"(x)); return v; }
static inline uint portatile_pair_bf16(float x, float y) { uint v; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(y), "f"(x)); return v; }

#elif defined(__gfx1100__) || defined(__gfx1101__) || defined(__gfx1102__) || defined(__gfx1103__) || defined(__gfx1150__) || defined(__gfx1151__)

#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define HAVE_MATRIX 1
#define MATRIX_LANES 32
#define MATRIX_ELEMENTS 8
#define MATRIX_ROW(lane, e) ((e) * 2 + (lane) / 16)
#define MATRIX_COLUMN(lane, e) ((lane) % 16)
/* a lane's row or column, which the lane 16 on holds too */
typedef struct { uint8 line; } matrix_a;
typedef struct { uint8 line; } matrix_b;
typedef struct { float r[8]; } matrix_f32;
typedef struct { uint r[8]; } matrix_s32;

static inline uint8 portatile_matrix_line(__local const uchar *tile, int row, int chunk) {
  return (uint8)(*(__local const uint4 *)(tile + MATRIX_AT(row, chunk)), *(__local const uint4 *)(tile + MATRIX_AT(row, chunk + 1)));
}
static inline uint portatile_matrix_pair(__local const uchar *tile, int k, int chunk, int across) {
  const uint low = ((__local const ushort *)(tile + MATRIX_AT(k, chunk + across / 8)))[across % 8];
  const uint high = ((__local const ushort *)(tile + MATRIX_AT(k + 1, chunk + across / 8)))[across % 8];
  return low | high << 16;
}
static inline uint8 portatile_matrix_line_t(__local const uchar *t, int k, int chunk, int i) {
  return (uint8)(portatile_matrix_pair(t, k, chunk, i), portatile_matrix_pair(t, k + 2, chunk, i), portatile_matrix_pair(t, k + 4, chunk, i),
                 portatile_matrix_pair(t, k + 6, chunk, i), portatile_matrix_pair(t, k + 8, chunk, i), portatile_matrix_pair(t, k + 10, chunk, i),
                 portatile_matrix_pair(t, k + 12, chunk, i), portatile_matrix_pair(t, k + 14, chunk, i));
}
#define MATRIX_LOAD_A(f, tile, row, chunk, lane) ((f).line = portatile_matrix_line(tile, (row) + (lane) % 16, chunk))
#define MATRIX_LOAD_A_T(f, tile, k, chunk, lane) ((f).line = portatile_matrix_line_t(tile, k, chunk, (lane) % 16))
#define MATRIX_LOAD_B(f, tile, row, chunk, lane) MATRIX_LOAD_A(f, tile, row, chunk, lane)
#define MATRIX_LOAD_B_T(f, tile, k, chunk, lane) MATRIX_LOAD_A_T(f, tile, k, chunk, lane)

#define PORTATILE_MATRIX_SUMS(T8, c) ((T8)((c).r[0], (c).r[1], (c).r[2], (c).r[3], (c).r[4], (c).r[5], (c).r[6], (c).r[7]))
#define PORTATILE_MATRIX_TAKE(c, v) \
  ((c).r[0] = (v).s0, (c).r[1] = (v).s1, (c).r[2] = (v).s2, (c).r[3] = (v).s3, (c).r[4] = (v).s4, (c).r[5] = (v).s5, (c).r[6] = (v).s6, (c).r[7] = (v).s7)
#define MATRIX_MULTIPLY_ADD_F16(c, a, b) \
  do { \
    const float8 portatile_v = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(as_half16((a).line), as_half16((b).line), PORTATILE_MATRIX_SUMS(float8, c)); \
    PORTATILE_MATRIX_TAKE(c, portatile_v); \
  } while (0)
#define MATRIX_MULTIPLY_ADD_BF16(c, a, b) \
  do { \
    const float8 portatile_v = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(as_short16((a).line), as_short16((b).line), PORTATILE_MATRIX_SUMS(float8, c)); \
    PORTATILE_MATRIX_TAKE(c, portatile_v); \
  } while (0)
#define MATRIX_MULTIPLY_ADD_S8(c, a, b) \
  do { \
    int8 portatile_v = as_int8(PORTATILE_MATRIX_SUMS(uint8, c)); \
    portatile_v = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(1, as_int4((a).line.lo), 1, as_int4((b).line.lo), portatile_v, 0); \
    portatile_v = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(1, as_int4((a).line.hi), 1, as_int4((b).line.hi), portatile_v, 0); \
    PORTATILE_MATRIX_TAKE(c, as_uint8(portatile_v)); \
  } while (0)
/* as halves: a word's bytes 0 and 2, then 1 and 3 */
#define PORTATILE_TIMES_256(h) as_uint(as_half2(h) * (half)256)
#define PORTATILE_MATRIX_WIDENED(type, w) \
  (uint8)(type((w).s0 << 8), type((w).s0), type((w).s1 << 8), type((w).s1), type((w).s2 << 8), type((w).s2), type((w).s3 << 8), type((w).s3))
#define PORTATILE_MATRIX_AS_F16(type, c, a, b) \
  do { \
    matrix_a portatile_a; \
    matrix_b portatile_b; \
    portatile_a.line = PORTATILE_MATRIX_WIDENED(type, (a).line.lo); \
    portatile_b.line = PORTATILE_MATRIX_WIDENED(type, (b).line.lo); \
    MATRIX_MULTIPLY_ADD_F16(c, portatile_a, portatile_b); \
    portatile_a.line = PORTATILE_MATRIX_WIDENED(type, (a).line.hi); \
    portatile_b.line = PORTATILE_MATRIX_WIDENED(type, (b).line.hi); \
    MATRIX_MULTIPLY_ADD_F16(c, portatile_a, portatile_b); \
  } while (0)
#define MATRIX_MULTIPLY_ADD_E4M3_AS_F16(c, a, b) PORTATILE_MATRIX_AS_F16(PORTATILE_F16_OF_E4M3, c, a, b)
#define MATRIX_MULTIPLY_ADD_E5M2_AS_F16(c, a, b) PORTATILE_MATRIX_AS_F16(PORTATILE_F16_OF_E5M2, c, a, b)
/* no instruction: rows of A come from the lanes that hold them */
static inline void portatile_matrix_tf32(matrix_f32 *c, uint8 a, uint8 b, int lane) {
  for (int e = 0; e < 8; ++e) {
    float sum = c->r[e];
    const int from = (e * 2 + lane / 16) * 4;
#define PORTATILE_TERM(s) \
    sum += as_float((uint)__builtin_amdgcn_ds_bpermute(from, (int)a.s) & 0xffffe000u) * as_float(b.s & 0xffffe000u);
    PORTATILE_TERM(s0) PORTATILE_TERM(s1) PORTATILE_TERM(s2) PORTATILE_TERM(s3)
    PORTATILE_TERM(s4) PORTATILE_TERM(s5) PORTATILE_TERM(s6) PORTATILE_TERM(s7)
#undef PORTATILE_TERM
    c->r[e] = sum;
  }
}
#define MATRIX_MULTIPLY_ADD_TF32(c, a, b) portatile_matrix_tf32(&(c), (a).line, (b).line, (int)get_local_id(0) % 32)

#else

#define MATRIX_LANES 32
#define MATRIX_ELEMENTS 8
#define MATRIX_ROW(lane, e) ((lane) / 4 + (e) / 2 % 2 * 8)
#define MATRIX_COLUMN(lane, e) ((lane) % 4 * 2 + (e) % 2 + (e) / 4 * 8)
/* lines of 32 bytes: of a lane's two rows, of its four columns */
typedef struct { uint r[2][8]; } matrix_a;
typedef struct { uint r[4][8]; } matrix_b;
typedef struct { float r[8]; } matrix_f32;
typedef struct { uint r[8]; } matrix_s32;

static inline void portatile_matrix_line(uint *to, __local const uchar *tile, int row, int chunk) {
  for (int w = 0; w < 8; ++w) to[w] = ((__local const uint *)(tile + MATRIX_AT(row, chunk + w / 4)))[w % 4];
}
static inline void portatile_matrix_line_t(uint *to, __local const uchar *tile, int k, int chunk, int across) {
  for (int w = 0; w < 8; ++w) {
    const uint low = ((__local const ushort *)(tile + MATRIX_AT(k + 2 * w, chunk + across / 8)))[across % 8];
    const uint high = ((__local const ushort *)(tile + MATRIX_AT(k + 2 * w + 1, chunk + across / 8)))[across % 8];
    to[w] = low | high << 16;
  }
}
#define MATRIX_LOAD_A(f, tile, row, chunk, lane) \
  do { \
    for (int portatile_l = 0; portatile_l < 2; ++portatile_l) \
      portatile_matrix_line((f).r[portatile_l], tile, (row) + MATRIX_ROW(lane, 2 * portatile_l), chunk); \
  } while (0)
#define MATRIX_LOAD_B(f, tile, row, chunk, lane) \
  do { \
    for (int portatile_l = 0; portatile_l < 4; ++portatile_l) \
      portatile_matrix_line((f).r[portatile_l], tile, (row) + MATRIX_COLUMN(lane, portatile_l % 2 + portatile_l / 2 * 4), chunk); \
  } while (0)
#define MATRIX_LOAD_A_T(f, tile, k, chunk, lane) \
  do { \
    for (int portatile_l = 0; portatile_l < 2; ++portatile_l) \
      portatile_matrix_line_t((f).r[portatile_l], tile, k, chunk, MATRIX_ROW(lane, 2 * portatile_l)); \
  } while (0)
#define MATRIX_LOAD_B_T(f, tile, k, chunk, lane) \
  do { \
    for (int portatile_l = 0; portatile_l < 4; ++portatile_l) \
      portatile_matrix_line_t((f).r[portatile_l], tile, k, chunk, MATRIX_COLUMN(lane, portatile_l % 2 + portatile_l / 2 * 4)); \
  } while (0)

#define PORTATILE_MATRIX_PRODUCT(name, T, terms) \
  static inline void portatile_matrix_##name(T *c, const matrix_a *a, const matrix_b *b) { \
    for (int e = 0; e < 8; ++e) \
      for (int w = 0; w < 8; ++w) { \
        const uint x = a->r[e / 2 % 2][w], y = b->r[e % 2 + e / 4 * 2][w]; \
        terms; \
      } \
  }
PORTATILE_MATRIX_PRODUCT(f16, matrix_f32, c->r[e] += MATRIX_LOW_F16(x) * MATRIX_LOW_F16(y); c->r[e] += MATRIX_HIGH_F16(x) * MATRIX_HIGH_F16(y))
PORTATILE_MATRIX_PRODUCT(bf16, matrix_f32, c->r[e] += MATRIX_LOW_BF16(x) * MATRIX_LOW_BF16(y); c->r[e] += MATRIX_HIGH_BF16(x) * MATRIX_HIGH_BF16(y))
PORTATILE_MATRIX_PRODUCT(tf32, matrix_f32, c->r[e] += as_float(x & 0xffffe000u) * as_float(y & 0xffffe000u))
PORTATILE_MATRIX_PRODUCT(s8, matrix_s32, for (int s = 0; s < 32; s += 8) c->r[e] += (uint)((int)(char)(x >> s & 255u) * (int)(char)(y >> s & 255u)))
static inline float portatile_from_e4m3(uint x) {
  const uint sign = (x & 0x80u) << 24, a = x & 0x7fu;
  return as_float(sign | (a < 8 ? as_uint((float)a * 0x1.0p-9f) : a == 0x7fu ? 0x7fc00000u : (a << 20) + 0x3c000000u));
}
PORTATILE_MATRIX_PRODUCT(e4m3, matrix_f32, for (int s = 0; s < 32; s += 8) c->r[e] += portatile_from_e4m3(x >> s & 255u) * portatile_from_e4m3(y >> s & 255u))
PORTATILE_MATRIX_PRODUCT(e5m2, matrix_f32, for (int s = 0; s < 32; s += 8) c->r[e] += portatile_from_f16((x >> s & 255u) << 8) * portatile_from_f16((y >> s & 255u) << 8))
#define MATRIX_MULTIPLY_ADD_F16(c, a, b) portatile_matrix_f16(&(c), &(a), &(b))
#define MATRIX_MULTIPLY_ADD_BF16(c, a, b) portatile_matrix_bf16(&(c), &(a), &(b))
#define MATRIX_MULTIPLY_ADD_TF32(c, a, b) portatile_matrix_tf32(&(c), &(a), &(b))
#define MATRIX_MULTIPLY_ADD_S8(c, a, b) portatile_matrix_s8(&(c), &(a), &(b))
#define MATRIX_MULTIPLY_ADD_E4M3_AS_F16(c, a, b) portatile_matrix_e4m3(&(c), &(a), &(b))
#define MATRIX_MULTIPLY_ADD_E5M2_AS_F16(c, a, b) portatile_matrix_e5m2(&(c), &(a), &(b))

#endif

#ifndef MATRIX_STORE_F32
#define MATRIX_STORE_F32(c, p, pitch, lane) \
  do { \
    for (int portatile_e = 0; portatile_e < MATRIX_ELEMENTS; ++portatile_e) \
      (p)[MATRIX_ROW(lane, portatile_e) * (pitch) + MATRIX_COLUMN(lane, portatile_e)] = (c).r[portatile_e]; \
  } while (0)
#define MATRIX_STORE_S32(c, p, pitch, lane) MATRIX_STORE_F32(c, p, pitch, lane)

static inline uint portatile_to_f16(float x) {
  const uint u = as_uint(x), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return sign | 0x7e00u;
  if (a >= 0x477ff000u) return sign | 0x7c00u;
  if (a < 0x33000001u) return sign;
  const uint shift = a < 0x38800000u ? 126 - (a >> 23) : 13, digits = a < 0x38800000u ? (a & 0x7fffffu) | 0x800000u : a - 0x38000000u;
  const uint unit = 1u << shift, rest = digits & (unit - 1), kept = digits >> shift;
  return sign | (kept + (rest > unit / 2 || (rest == unit / 2 && (kept & 1)) ? 1 : 0));
}
static inline uint portatile_to_bf16(float x) {
  const uint u = as_uint(x);
  return (u & 0x7fffffffu) > 0x7f800000u ? u >> 16 | 0x40u : (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
}
static inline uint portatile_pair_f16(float x, float y) { return portatile_to_f16(x) | portatile_to_f16(y) << 16; }
static inline uint portatile_pair_bf16(float x, float y) { return portatile_to_bf16(x) | portatile_to_bf16(y) << 16; }

#endif
#define MATRIX_PAIR_F16(x, y) portatile_pair_f16(x, y)
#define MATRIX_PAIR_BF16(x, y) portatile_pair_bf16(x, y)

/* Starts a copy of the first `bytes`, 0 to 16, of 16 from __global g to __local l, and brings zeros for the others; both aligned to 16.
   What is not copied is not read. */
#if defined(PORTATILE_NVIDIA) && defined(HAVE_COPY_ASYNC)
#define COPY_ASYNC_16_PART(l, g, bytes) \
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(LOCAL_ADDRESS(l)), "l"((ulong)(g)), "r"(bytes) : "memory")
#else
static inline void portatile_copy_part(__local uchar *to, __global const uchar *from, int bytes) {
  for (int i = 0; i < 16; ++i) to[i] = i < bytes ? from[i] : 0;
}
#define COPY_ASYNC_16_PART(l, g, bytes) portatile_copy_part((__local uchar *)(l), (__global const uchar *)(g), bytes)
#endif
