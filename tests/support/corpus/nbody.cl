/* All pairs through a tile in local memory, positions and velocities as float4.
   run: nbody --global 32 --local 16 32=random(-1,1) 32=random 32 32 16 32 0.01 0.05
   tolerance: 1e-5 */
__kernel void nbody(__global const float4 *pos, __global const float4 *vel, __global float4 *new_pos, __global float4 *new_vel,
                    __local float4 *cache, int n, float dt, float eps)
{
  const int gti = get_global_id(0), ti = get_local_id(0), nt = get_local_size(0), nb = n / nt;
  float4 p = pos[gti], v = vel[gti], a = (float4)(0.0f, 0.0f, 0.0f, 0.0f);
  for (int jb = 0; jb < nb; jb++) {
    cache[ti] = pos[jb * nt + ti];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int j = 0; j < nt; j++) {
      float4 d = cache[j] - p;
      float invr = rsqrt(d.x * d.x + d.y * d.y + d.z * d.z + eps), f = cache[j].w * invr * invr * invr;
      a.xyz += f * d.xyz;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  p += dt * v + 0.5f * dt * dt * a;
  v += dt * a;
  new_pos[gti] = p;
  new_vel[gti] = v;
}
