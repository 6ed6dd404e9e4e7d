/* A bilateral filter on bytes packed in words.
   run: bilateral --global 8,4 --local 8,4 4x8=random(0,2000000000) 4x8 4.0 50.0
   tolerance: 1e-5 */
float4 rgbaUintToFloat4(uint c)
{
  float4 rgba;
  rgba.x = c & 0xff;
  rgba.y = (c >> 8) & 0xff;
  rgba.z = (c >> 16) & 0xff;
  rgba.w = (c >> 24) & 0xff;
  return rgba;
}

__kernel void bilateral(__global const uint *in, __global float4 *out, const float spatial, const float range)
{
  const int x = get_global_id(0), y = get_global_id(1), w = get_global_size(0), h = get_global_size(1);
  float4 centre = rgbaUintToFloat4(in[y * w + x]), sum = 0;
  float total = 0;
  for (int j = max(0, y - 2); j <= min(h - 1, y + 2); ++j) {
    for (int i = max(0, x - 2); i <= min(w - 1, x + 2); ++i) {
      float4 c = rgbaUintToFloat4(in[j * w + i]);
      float d = (float)((i - x) * (i - x) + (j - y) * (j - y)) / spatial + pow(fast_distance(c.xyz, centre.xyz) / range, 2.0f);
      float f = exp(-d);
      total += f, sum += f * c;
    }
  }
  out[y * w + x] = sum / total;
}
