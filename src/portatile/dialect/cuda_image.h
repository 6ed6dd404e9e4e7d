/* Images of OpenCL C in CUDA C++: a point-sampled texture for reading, memory for writing, the sampler in software.

   The host passes the structure by value. The texture takes whole coordinates and gives 0 outside. ``channels`` has in its bytes, from
   the lowest: the number of channels, the bytes of one, and their kind (1 floating point, 2 signed, 3 unsigned). */
namespace ocl {
typedef uint sampler_t;
// ``extents`` dimensions have coordinates that a sampler works on; one more selects a layer of an array.
#define IMAGE(name, e, l, ...) \
  struct name { enum { extents = e, layered = l }; ulong texture, data; int width, height, pitch, channels; __VA_ARGS__ };
IMAGE(image2d_t, 2, 0, )
IMAGE(image1d_t, 1, 0, int depth, slice;)
IMAGE(image1d_buffer_t, 1, 0, int depth, slice;)
IMAGE(image1d_array_t, 1, 1, int depth, slice;)
IMAGE(image2d_array_t, 2, 1, int depth, slice;)
IMAGE(image3d_t, 3, 0, int depth, slice;)
template <class M> concept portatile_image = M::extents > 0;
template <portatile_image M> INLINE int portatile_extent(const M &image, int d) {
  if constexpr (M::extents == 3) { if (d == 2) return image.depth; }
  return d == 0 ? image.width : image.height;
}

INLINE vec<int, 4> portatile_coordinates(int at) { return vec<int, 4>(at, 0, 0, 0); }
INLINE vec<float, 4> portatile_coordinates(float at) { return vec<float, 4>(at, 0.0f, 0.0f, 0.0f); }
template <class C> INLINE vec<C, 4> portatile_coordinates(vec<C, 2> at) { return vec<C, 4>(at.x, at.y, C(0), C(0)); }
template <class C> INLINE vec<C, 4> portatile_coordinates(vec<C, 4> at) { return at; }

#define TEXTURE(kind, letter, shape, place, ...) \
  asm("tex." shape ".v4." kind ".s32 {%0, %1, %2, %3}, [%4, {" place "}];" \
      : letter(v.x), letter(v.y), letter(v.z), letter(v.w) : "l"(image.texture), __VA_ARGS__)
#define FETCH(T, kind, letter) template <portatile_image M> INLINE vec<T, 4> portatile_fetch(const M &image, vec<int, 4> at, T) { \
  vec<T, 4> v; \
  if constexpr (M::extents == 1 && !M::layered) TEXTURE(kind, letter, "1d", "%5", "r"(at.x)); \
  else if constexpr (M::extents == 1) TEXTURE(kind, letter, "a1d", "%5, %6", "r"(at.y), "r"(at.x)); \
  else if constexpr (M::extents == 2 && !M::layered) TEXTURE(kind, letter, "2d", "%5, %6", "r"(at.x), "r"(at.y)); \
  else if constexpr (M::extents == 2) TEXTURE(kind, letter, "a2d", "%5, %6, %7, %7", "r"(at.z), "r"(at.x), "r"(at.y)); \
  else TEXTURE(kind, letter, "3d", "%5, %6, %7, %7", "r"(at.x), "r"(at.y), "r"(at.z)); \
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
// The mean over dimension d and those below, at fixed coordinates in the others.
template <int d, class T, class M> INLINE vec<T, 4> portatile_mean(const M &image, const portatile_span *spans, vec<int, 4> at) {
  if constexpr (d < 0) return portatile_fetch(image, at, T());
  else {
    at[d] = spans[d].first;
    vec<T, 4> a = portatile_mean<d - 1, T>(image, spans, at);
    at[d] = spans[d].second;
    return mix(a, portatile_mean<d - 1, T>(image, spans, at), spans[d].weight);
  }
}
template <class T, class M> INLINE vec<T, 4> portatile_sample(const M &image, sampler_t s, vec<int, 4> at) {
  if ((s & 14) == 2) {
    for (int d = 0; d < M::extents; d++) at[d] = ::min(::max(at[d], 0), portatile_extent(image, d) - 1);
  }
  if constexpr (M::layered) at[M::extents] = ::min(::max(at[M::extents], 0), image.depth - 1);
  return portatile_fetch(image, at, T());
}
template <class T, class M> INLINE vec<T, 4> portatile_sample(const M &image, sampler_t s, vec<float, 4> at) {
  vec<int, 4> whole(0);
  if constexpr (M::layered) whole[M::extents] = ::min(::max(int(rint(at[M::extents])), 0), image.depth - 1);
  if constexpr (equal<T, float>) {
    if (s & 16) {
      portatile_span spans[M::extents];
      for (int d = 0; d < M::extents; d++) spans[d] = portatile_neighbours(s, at[d], portatile_extent(image, d));
      return portatile_mean<M::extents - 1, T>(image, spans, whole);
    }
  }
  for (int d = 0; d < M::extents; d++) whole[d] = portatile_place(s, at[d], portatile_extent(image, d));
  return portatile_fetch(image, whole, T());
}
#define READ(name, T) \
  template <portatile_image M, class C> INLINE vec<T, 4> name(const M &image, sampler_t s, C at) { \
    return portatile_sample<T>(image, s, portatile_coordinates(at)); } \
  template <portatile_image M, class C> INLINE vec<T, 4> name(const M &image, C at) { \
    return portatile_fetch(image, portatile_coordinates(at), T()); }
READ(read_imagef, float) READ(read_imagei, int) READ(read_imageui, uint)

template <class T, class M> INLINE void portatile_put(const M &image, vec<int, 4> at, vec<T, 4> v) {
  for (int d = 0; d < M::extents; d++) if (at[d] < 0 || at[d] >= portatile_extent(image, d)) return;
  char *row = (char *)image.data;
  if constexpr (M::extents > 1) row += size_t(at.y) * size_t(image.pitch);
  if constexpr (M::extents + M::layered > 2 || M::layered) {
    int layer = at[M::extents + M::layered - 1];
    if (layer < 0 || layer >= image.depth) return;
    row += size_t(layer) * size_t(image.slice);
  }
  int channels = image.channels & 255, width = image.channels >> 8 & 255;
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
#define WRITE(name, T) template <portatile_image M, class C> INLINE void name(const M &image, C at, vec<T, 4> v) { \
  portatile_put(image, portatile_coordinates(at), v); }
WRITE(write_imagef, float) WRITE(write_imagei, int) WRITE(write_imageui, uint)

template <portatile_image M> INLINE int get_image_width(const M &image) { return image.width; }
template <portatile_image M> INLINE int get_image_height(const M &image) { return image.height; }
template <portatile_image M> INLINE int get_image_depth(const M &image) { return image.depth; }
template <portatile_image M> INLINE size_t get_image_array_size(const M &image) { return image.depth; }
template <portatile_image M> INLINE auto get_image_dim(const M &image) {
  if constexpr (M::extents == 3) return vec<int, 4>(image.width, image.height, image.depth, 0);
  else return vec<int, 2>(image.width, image.height);
}
// CLK_R, CLK_RG and CLK_RGBA; CLK_HALF_FLOAT and CLK_FLOAT, or the integers from CLK_SIGNED_INT8 on.
template <portatile_image M> INLINE int get_image_channel_order(const M &image) {
  int channels = image.channels & 255;
  return channels == 1 ? 0x10b0 : channels == 2 ? 0x10b2 : 0x10b5;
}
template <portatile_image M> INLINE int get_image_channel_data_type(const M &image) {
  int width = image.channels >> 8 & 255, kind = image.channels >> 16;
  return kind == 1 ? (width == 2 ? 0x10dd : 0x10de) : (kind == 2 ? 0x10d7 : 0x10da) + (width >> 1);
}
}  // namespace ocl
