// Customs of C that C++ does not share: designators, GNU's extensions, tags, layouts.

//// designators_in_any_order
typedef struct {
  float4 pos;
  int id, flags[3];
  struct {
    int a, b;
  } inner;
} vertex;
enum slot { LOW, MIDDLE = 3, HIGH };
__constant vertex fixed = {.id = 4, .pos = (float4)(1, 2, 3, 4), .flags = {[2] = 9, [0] = 7}};
__constant int slots[] = {[HIGH] = 40, [LOW] = 10, 11, [MIDDLE] = 30};
__constant vertex several[2] = {[1] = {.id = 6}, [0].id = 5, [0].pos = (float4)(8)};
__kernel void k(__global int *o)
{
  int i = get_global_id(0);
  int big[3][2] = {[1] = {5, 6}, [0] = {1}}, range[6] = {[1 ... 3] = 2, [5] = 1};
  vertex v = {.flags[1] = i, .id = 2}, *p = &v;
  p->pos = ((vertex){.id = 1, .pos = (float4)(3)}).pos;
  struct vertex_pair {
    int x, y;
  } pair = {.y = 3, .x = i};
  o[i] = fixed.id + fixed.flags[0] + 10 * fixed.flags[2] + (int)fixed.pos.w + slots[i % 5] + several[i & 1].id + (int)several[0].pos.x +
         big[1][1] + big[0][0] + big[2][1] + range[i % 6] + v.flags[1] + v.id + (int)v.pos.x + pair.x * pair.y;
}

//// union_designators
typedef union {
  float f;
  uint u;
} bits;
typedef struct {
  int n;
  bits b;
} cell;
__kernel void k(__global uint *o)
{
  int i = get_global_id(0);
  cell c = {.b = {.u = 5}, .n = i};
  cell d = {.b.f = 1.0f, .n = 2};
  o[i] = c.b.u + c.n + d.b.u + d.n;
}

//// members_of_types_without_a_name
typedef struct {
  int kind;
  union {
    int i;
    float f;
  };
  struct {
    short a, b;
  } tail;
  union {
    float f;
    uint u;
  } bits[2];
} variant;
__kernel void k(__global int *o)
{
  int i = get_global_id(0);
  variant v = {.kind = 3, .f = 2.0f, .tail.b = i, .bits[1].u = 9}, w = {.tail = {.b = 1, .a = 2}, .kind = i, .i = 7, .bits = {[0] = {.f = 1}}};
  o[i] = v.kind + as_int(v.f) + v.tail.b + v.tail.a + (int)v.bits[1].u + w.kind + w.i + 10 * w.tail.a + w.tail.b + (int)w.bits[0].f;
}

//// pointers_through_parentheses
#define SWAP(T, a, b) \
  do { \
    T swap_ = (a); \
    (a) = (b); \
    (b) = swap_; \
  } while (0)
__kernel void k(__global const int *a, __global int *o)
{
  __local int memory[2], *first = memory, *second = memory + 1;
  int i = get_global_id(0), x = 5, y = 7, *table[3] = {&x, &y, 0}, *p = &y;
  ulong address = 0;
  SWAP(__local int *, first, second);
  *(table + 2) = p;
  (table[0]) = p;
  (address) = p == table[2];
  barrier(CLK_LOCAL_MEM_FENCE);
  if (get_local_id(0) == 0) {
    *first = 1;
    *second = 2;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  o[i] = a[i] + 10 * memory[0] + memory[1] + *table[0] + *table[2] + (int)address;
}

//// local_arrays_and_pointers_in_one_declaration
__kernel void k(__global const int *a, __global int *o)
{
  int i = get_global_id(0), l = get_local_id(0);
  __local int *mine, memory[64], *next = &memory[1], (*whole)[64], last;
  mine = memory + l;
  whole = &memory;
  mine[0] = a[i];
  if (l == 0)
    last = 3;
  barrier(CLK_LOCAL_MEM_FENCE);
  o[i] = mine[0] + (*whole)[l] + *next - memory[1] + last;
}

//// statement_expressions
#define LESSER(a, b) ({ int a_ = (a), b_ = (b); a_ < b_ ? a_ : b_; })
#define ADD_TWICE(s, x) ({ s += x; s += x; })
__kernel void k(__global const int *a, __global int *o)
{
  int i = get_global_id(0), s = 0;
  ADD_TWICE(s, i);
  s += LESSER(a[i], 7 * i) + LESSER(1, 2);
  o[i] = s;
}

//// case_ranges
__kernel void k(__global int *o)
{
  int i = get_global_id(0);
  switch (i) {
    case 0: o[i] = 1; break;
    case 1 ... 9: o[i] = 2; break;
    case 15 ... 20: o[i] = 3; break;
    default: o[i] = 4;
  }
}

//// kernel_named_like_keyword
__kernel void and(__global const int *a, __global int *xor)
{
  int i = get_global_id(0);
  xor[i] = a[i] & 3;
}

//// array_parameters
int sum(const int m[static 4], int n[const])
{
  return m[0] + m[1] + m[2] + m[3] + n[1];
}

__kernel void k(__global int *o)
{
  int i = get_global_id(0), m[4] = {i, 1, 2, 3};
  o[i] = sum(m, m);
}

//// volatile_structures
typedef struct {
  char c;
  int v[4];
} record;
record changed(record r)
{
  r.v[1] += r.c;
  return r;
}

__kernel void k(__global int *o)
{
  int i = get_global_id(0);
  volatile record r;
  r.c = -3;
  r.v[1] = i;
  record s = changed(r);
  o[i] = s.v[1];
}

//// local_structure_without_name
__kernel void k(__global const float *a, __global float *o)
{
  __local struct {
    int n;
    float f;
  } t[32];
  int i = get_local_id(0);
  t[i].n = i;
  t[i].f = a[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  o[i] = t[31 - i].f + t[31 - i].n;
}

//// scalars_before_vectors
__kernel void k(__global const float4 *a, __global const int4 *b, __global float4 *o, __global int4 *p)
{
  int i = get_global_id(0);
  o[i] = fmax(0.5f, a[i]) + pow(2.0f, a[i]) + clamp(a[i], 0.0f, (float4)(1.0f)) + mix(0.0f, a[i], (float4)(0.5f));
  p[i] = max((int4)(i), b[i]) + min(b[i], 3);
}

//// return_through_pointer
uint next(__private uint *s)
{
  return *s = *s * 3u + 1u;
}

__kernel void k(__global uint *o)
{
  uint s = get_global_id(0);
  next(&s);
  o[get_global_id(0)] = next(&s);
}

//// enumeration_tags
typedef enum colour { RED, GREEN = 5 } colour;
enum { FIRST = 7, SECOND };
colour flip(enum colour c)
{
  return c == RED ? GREEN : RED;
}

__kernel void k(__global int *o)
{
  enum colour c = get_global_id(0) & 1 ? RED : GREEN;
  enum local_tag { A = 2, B } other = B;
  o[get_global_id(0)] = flip(c) + SECOND + other;
}

//// three_components_in_memory
typedef struct {
  char c;
  float3 v;
  short3 s;
  int n;
} mixed;
#define OFFSET(field) (int)((__private char *)&m.field - (__private char *)&m)
__kernel void k(__global const float4 *a, __global int *o)
{
  int i = get_global_id(0);
  float3 v = as_float3(a[i]);
  float4 back = as_float4(v);
  mixed m;
  m.c = 1;
  m.v = v * 2;
  m.s = as_short3(convert_short4_sat(a[i]));
  m.n = i;
  vstore3(convert_int3_sat_rtz(back.xyz) + convert_int3(m.s) + (int3)(0, 0, m.c), i, o);
  o[96 + i] = sizeof(mixed) + vec_step(float3) * 100 + sizeof(m.s) * 1000;
  o[128 + i] = OFFSET(v) + 100 * OFFSET(s) + 10000 * OFFSET(n);
}

//// macros_of_the_language
kernel_exec(4, float) void other(__global float *o) { o[0] = 1; }
__kernel void k(__global int *o)
{
  int i = get_global_id(0);
#if defined(__ENDIAN_LITTLE__) && defined(__IMAGE_SUPPORT__) && __OPENCL_VERSION__ >= CL_VERSION_1_2 && defined(CL_VERSION_1_0)
  o[i] = (FLT_RADIX == 2) + (CHAR_BIT == 8) * 2 + (INT_MIN < 0) * 4 + (fabs(M_PI_2_F - 1.5707964f) < 1e-6f) * 8 + (isinf(HUGE_VALF) ? 16 : 0)
       + (get_global_offset(0) == 0) * 32 + (ULONG_MAX == ~0UL) * 64;
#endif
}

//// comments_in_macros
#define BODY(x)                                  \
  {                                              \
    int t = x; /* a comment \
      over lines */                              \
    t += 1;                                      \
    o[i] = t;                                    \
  }
__kernel void k(__global int *o)
{
  int i = get_global_id(0);
  BODY(i * 2) // ends here \
  o[i] = 0;
  o[i] += __LINE__;
}

//// image_queries
__kernel void k(__read_only image2d_t image, __global int *o)
{
  int i = get_global_id(0);
  int2 d = get_image_dim(image);
  o[i] = get_image_width(image) + 100 * get_image_height(image) + 10000 * (d.x == 7 && d.y == 5)
       + 100000 * (get_image_channel_order(image) == CLK_RGBA) + 1000000 * (get_image_channel_data_type(image) == CLK_FLOAT);
}

//// typedefs_with_attributes
typedef struct {
  uchar r, g;
} pixel __attribute__((aligned(4)));
typedef float real;
typedef real f3 __attribute__((ext_vector_type(3)));
typedef int __attribute__((ext_vector_type(4))) i4;
__kernel void k(__global const float4 *a, __global float *o, __global i4 *p)
{
  int i = get_global_id(0);
  pixel q = (pixel){1, 2};
  f3 v = a[i].xyz * (f3)(1, 2, 3);
  q = (pixel){q.g, sizeof(pixel)};
  o[i] = v.x + v.z + q.r * 10 + q.g * 100;
  p[i] = (i4)(i, 1, 2, 3) + (i4)(1);
}

//// choices_that_end_in_swizzles
__kernel void k(__global const int4 *a, __global const int4 *b, __global int4 *o)
{
  int i = get_global_id(0);
  int8 both = (int8)(a[i], b[i]);
  o[i] = (a[i] < b[i]) ? b[i].wzyx : ((int2)(a[i].x, 7)).xyxy;
  o[i].xy += (a[i].lo > b[i].lo) ? both.s01 : ((a[i].lo < -5) ? both.hi.even : both.lo.odd);
}

//// arrays_of_another_sign
typedef uint u32;
static void add(u32 data[4], int v[], __local u32 *t, const u32 w[2], int n) { data[n & 3] += v[n & 3] + t[n] + w[n & 1]; }
__kernel void k(__global int *o, __local int *t)
{
  int i = get_global_id(0);
  int a[4] = {1, 2, 3, 4}, w[2] = {10, 20};
  u32 b[4] = {100, 200, 300, 400};
  t[i] = i;
  barrier(CLK_LOCAL_MEM_FENCE);
  add(a, b, t, w, i);
  add(b, a, (__local u32 *)t, b, i);
  o[i] = a[i & 3] + b[i & 3];
}

//// array_literals
typedef struct {
  int a, b;
} pair;
__kernel void k(__global const int *a, __global int *o)
{
  int i = get_global_id(0), s = 0;
  for (int j = 0; j < 3; j++) s += ((int[4]){j, 2, a[i], i})[j];
  s += ((const uchar[]){1, 2, 4, 8, 16})[i % 5] + (int)sizeof((short[]){1, 2, 3}) + ((pair[2]){{1, i}, {3, 4}})[i & 1].b;
  s += ((int[]){[3] = 7, 8, [1] = i})[i % 5] + ((char[]){"abc"})[i % 3] + (int)((float4[]){(float4)(i), {1, 2, 3, 4}})[i & 1].z;
  o[i] = s + ((int[2][2]){{1, 2}, {3, i}})[1][1];
}

//// array_literals_as_pointers
int sum(const int *p, int n)
{
  int s = 0;
  for (int i = 0; i < n; i++) s += p[i];
  return s;
}

__kernel void k(__global const int *a, __global int *o)
{
  int i = get_global_id(0);
  int *q = (int[3]){a[i]}, *same[2];
  q[1] += 4;
  q[2] = q[0] ^ q[1];
  const int *p = i & 1 ? (int[]){5, 6} : (int[]){7, 8};
  for (int j = 0; j < 2; j++) same[j] = (int[]){j, i};
  o[i] = sum(q, 3) + p[i >> 4] + sum((int[]){i, 2, a[i]}, 3) + same[0][0] + same[1][1];
}

//// parameters_behind_the_bracket
int add(a, b) int a; int b;
{
  return a + 2 * b;
}

float scaled(p, q, n, f)
  __global const float *p, q[];
  int n;
  float f;
{
  return p[n] * f + q[0];
}

__kernel void k(__global const float *a, __global float *o)
{
  int i = get_global_id(0);
  o[i] = scaled(a, a + i, i, 2.0f) + add(i, 3);
}

//// overloads_of_address_spaces
#define TOTAL(space) \
  float __attribute__((overloadable)) total(space const float *p, int n) \
  { \
    space const float *q = p; \
    float s = 0; \
    for (int i = 0; i < n; i++) s += q[i]; \
    return s; \
  }
TOTAL(__global)
TOTAL(__local)
TOTAL(__private)
TOTAL(__constant)
float __attribute__((overloadable)) total(float x) { return x * 3; }
__constant float fixed[2] = {7, 8};
__kernel void k(__global const float *a, __global float *o)
{
  __local float t[32];
  int i = get_local_id(0);
  float x[2] = {1, i};
  t[i] = a[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  o[i] = total(a + i, 1) + total(t + (i ^ 1), 1) * 2 + total(x, 2) + total(fixed, 2) + total(x[1]);
}

//// counted_truth
typedef struct {
  bool f[2], g;
  int n;
} flags;
bool raise(bool *p)
{
  return (*p)++;
}

__kernel void k(__global int *o)
{
  int i = get_global_id(0), n = 0;
  flags s = {{i & 1, i & 2}, false, 3}, *p = &s;
  bool b = i & 4, c = b;
  n += s.f[0]++ + 2 * p->f[1]--;
  p->g++;
  s.n++;
  if (b++ && !c--) n += 4;
  if (c) ++b;
  raise(&c);
  for (bool t = false; !t; t++) n += 8;
  o[i] = n + s.f[0] * 16 + s.f[1] * 32 + s.g * 64 + b * 128 + c * 256 + s.n * 512 + --b * 4096;
}

//// attributes_behind_members
typedef struct tight {
  char c;
  int n;
} __attribute__((packed)) tight;
typedef struct {
  char c;
  short s;
} __attribute__((aligned(8))) wide;
struct both {
  char c;
  int n;
  char d;
} __attribute__((packed, aligned(4)));
union __attribute__((aligned(16))) before {
  int n;
};
__kernel void k(__global const tight *a, __global int *o)
{
  int i = get_global_id(0);
  wide w[2] = {{1, 2}, {3, 4}};
  o[i] = a[i].n + a[i].c + w[1].s + sizeof(tight) + 16 * sizeof(wide) + 256 * sizeof(struct both) + 4096 * sizeof(union before);
}

//// shifts_beyond_the_width
enum { A = 3, B = 1 << A };
typedef struct {
  uint w[1 << A];
} eight;
__constant int table[] = {1 << A, B >> 1};
__kernel void k(__global const int *a, __global const int *b, __global long *o)
{
  int i = get_global_id(0), x = a[i], n = b[i];
  uint u = x;
  long l = (long)x << 20;
  eight s;
  switch (i) {
    case 1 << A: s.w[i & 7] = 5;
    break;
    default: s.w[i & 7] = x;
  }
  s.w[i & 7] <<= n;
  char c = x;
  c >>= n;
  int4 v = (int4)(x) << n;
  o[i] = (l >> n) + (x << n) + (x >> n) + (u >> n) + (1 << n << 2) + s.w[i & 7] + c + v.y + table[i & 1] + (x << (i > 3 ? n : i)) + (1L << -n);
}

//// characters_and_comparisons_are_integers
__kernel void k(__global const int *a, __global int *o)
{
  int i = get_global_id(0);
  char s[] = {'a', 'b', '\\'};
  o[i] = sizeof('a') + as_int(a[i] > 1) + popcount(a[i] > 2) + clz(a[i] < 0) + abs(a[i] == a[i]) + as_int('x') + s[i % 3];
}

//// layouts
typedef struct {
  char c;
  int n;
} behind_name __attribute__((aligned(16)));
typedef struct __attribute__((aligned(32))) tag {
  char c;
  int n;
} before;
typedef struct {
  char c;
  float __attribute__((aligned(16))) x[3];
  char d;
} member;
typedef float wide __attribute__((aligned(32)));
typedef union {
  char c[5];
  short n;
} __attribute__((packed)) five;
typedef struct {
  char c;
  five u;
  float4 v;
} __attribute__((__packed__)) tight;
typedef struct {
  struct {
    char c;
    int n;
  } __attribute__((packed)) in;
  char d;
} inside;
typedef struct five_bytes {
  char c;
  int n;
} __attribute__((packed)) five_bytes, *pointer;
typedef struct {
  char a;
  five_bytes b[2];
  wide f;
} __attribute__((packed)) __attribute__((aligned(4))) mixed;
typedef struct {
  bool b;
  enum { ONE, TWO } e;
  uchar3 u;
  double4 v;
  short s;
} plain;
#define SIZE(t) *o++ = sizeof(t);
#define OFFSET(t, m) { t x; *o++ = (int)((char *)&x.m - (char *)&x); }
__kernel void k(__global int *o)
{
  SIZE(behind_name) SIZE(before) SIZE(member) SIZE(wide) SIZE(five) SIZE(tight) SIZE(inside) SIZE(struct five_bytes) SIZE(mixed) SIZE(plain)
  OFFSET(member, x) OFFSET(member, d) OFFSET(tight, v) OFFSET(inside, d) OFFSET(mixed, b) OFFSET(mixed, f) OFFSET(plain, e) OFFSET(plain, v)
}
