/* Two-dimensional images of OpenCL C in CUDA C++: a point-sampled texture for reading, memory for writing, the sampler in software.

   The host passes the structure by value. The texture takes whole coordinates and gives 0 outside. ``channels`` has the number of
   channels in its low byte and, where they are not 4 bytes wide, the bytes of one in the next. */
namespace ocl {
struct image2d_t { ulong texture, data; int width, height, pitch, channels; };
typedef uint sampler_t;

#define FETCH(T, kind, letter) INLINE vec<T, 4> portatile_fetch(const image2d_t &image, int x, int y, T) { \
  vec<T, 4> v; \
  asm("tex.2d.v4." kind ".s32 {%0, %1, %2, %3}, [%4, {%5, %6}];" \
      : letter(v.x), letter(v.y), letter(v.z), letter(v.w) : "l"(image.texture), "r"(x), "r"(y)); \
  int channels = image.channels & 255; \
  if (channels < 2) v.y = 0; \
  if (channels < 3) v.z = 0; \
  if (channels < 4) v.w = 1; \
  return v; }
FETCH(float, "f32", "=f") FETCH(int, "s32", "=r") FETCH(uint, "u32", "=r")

// One coordinate: where a sampler of that addressing mode looks, for nearest sampling.
INLINE int portatile_place(sampler_t s, float u, int extent) {
  uint mode = s & 14;
  if (mode == 6) {
    int i = int(floor((u - floor(u)) * extent));
    return i > extent - 1 ? i - extent : i;
  }
  if (mode == 8) return ::min(int(floor(fabs(u - 2 * rint(0.5f * u)) * extent)), extent - 1);
  int i = int(floor(s & 1 ? u * extent : u));
  return mode == 2 ? ::min(::max(i, 0), extent - 1) : i;
}
// Both neighbours of one coordinate and the weight of the second, for linear sampling.
struct portatile_span { int first, second; float weight; };
INLINE portatile_span portatile_neighbours(sampler_t s, float u, int extent) {
  uint mode = s & 14;
  if (mode == 6) u = (u - floor(u)) * extent;
  else if (mode == 8) u = fabs(u - 2 * rint(0.5f * u)) * extent;
  else if (s & 1) u *= extent;
  float low = floor(u - 0.5f);
  portatile_span p = {int(low), int(low) + 1, u - 0.5f - low};
  if (mode == 6) {
    if (p.first < 0) p.first += extent;
    if (p.second > extent - 1) p.second -= extent;
  } else if (mode == 8 || mode == 2) {
    p.first = ::max(p.first, 0);
    p.second = ::min(p.second, extent - 1);
    if (mode == 2) {
      p.first = ::min(p.first, extent - 1);
      p.second = ::max(p.second, 0);
    }
  }
  return p;
}
template <class T> INLINE vec<T, 4> portatile_sample(const image2d_t &image, sampler_t s, vec<int, 2> at) {
  if ((s & 14) == 2) at = clamp(at, vec<int, 2>(0), vec<int, 2>(image.width - 1, image.height - 1));
  return portatile_fetch(image, at.x, at.y, T());
}
template <class T> INLINE vec<T, 4> portatile_sample(const image2d_t &image, sampler_t s, vec<float, 2> at) {
  if constexpr (equal<T, float>) {
    if (s & 16) {
      portatile_span x = portatile_neighbours(s, at.x, image.width), y = portatile_neighbours(s, at.y, image.height);
      vec<float, 4> a = portatile_fetch(image, x.first, y.first, T()), b = portatile_fetch(image, x.second, y.first, T());
      vec<float, 4> c = portatile_fetch(image, x.first, y.second, T()), d = portatile_fetch(image, x.second, y.second, T());
      return mix(mix(a, b, x.weight), mix(c, d, x.weight), y.weight);
    }
  }
  return portatile_fetch(image, portatile_place(s, at.x, image.width), portatile_place(s, at.y, image.height), T());
}
#define READ(name, T) \
  template <class C> INLINE vec<T, 4> name(const image2d_t &image, sampler_t s, vec<C, 2> at) { return portatile_sample<T>(image, s, at); } \
  INLINE vec<T, 4> name(const image2d_t &image, vec<int, 2> at) { return portatile_fetch(image, at.x, at.y, T()); }
READ(read_imagef, float) READ(read_imagei, int) READ(read_imageui, uint)

template <class T> INLINE void portatile_put(const image2d_t &image, vec<int, 2> at, vec<T, 4> v) {
  if (at.x < 0 || at.y < 0 || at.x >= image.width || at.y >= image.height) return;
  int channels = image.channels & 255, width = image.channels >> 8;
  char *row = (char *)image.data + size_t(at.y) * size_t(image.pitch);
  if (width == 2) {
    if constexpr (equal<T, float>) {
      for (int c = 0; c < channels; c++) {
        ushort bits;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v[c]));
        ((ushort *)row)[at.x * channels + c] = bits;
      }
    } else for (int c = 0; c < channels; c++) ((ushort *)row)[at.x * channels + c] = ushort(v[c]);
  } else if (channels == 4) ((vec<T, 4> *)row)[at.x] = v;
  else if (channels == 2) ((vec<T, 2> *)row)[at.x] = vec<T, 2>(v.x, v.y);
  else ((T *)row)[at.x] = v.x;
}
INLINE void write_imagef(const image2d_t &image, vec<int, 2> at, vec<float, 4> v) { portatile_put(image, at, v); }
INLINE void write_imagei(const image2d_t &image, vec<int, 2> at, vec<int, 4> v) { portatile_put(image, at, v); }
INLINE void write_imageui(const image2d_t &image, vec<int, 2> at, vec<uint, 4> v) { portatile_put(image, at, v); }
INLINE int get_image_width(const image2d_t &image) { return image.width; }
INLINE int get_image_height(const image2d_t &image) { return image.height; }
INLINE vec<int, 2> get_image_dim(const image2d_t &image) { return vec<int, 2>(image.width, image.height); }
}  // namespace ocl
