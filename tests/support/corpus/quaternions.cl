/* Rotations of points as 16-bit halves and quaternions; swizzles, even and odd halves of vectors.
   run: quaternions --global 16 --local 16 16=random(-1,1) 16=random(-2,2) 16 16
   tolerance: 1e-5 */
float4 qmul(float4 a, float4 b)
{
  return (float4)(a.w * b.xyz + b.w * a.xyz + cross(a.xyz, b.xyz), a.w * b.w - dot(a.xyz, b.xyz));
}

__kernel void quaternions(__global const float4 *q, __global const float3 *points, __global float3 *out, __global short4 *packed)
{
  int i = get_global_id(0);
  float4 r = normalize(q[i] + (float4)(0, 0, 0, 3)), conjugate = r * (float4)(-1, -1, -1, 1);
  float4 p = qmul(qmul(r, (float4)(points[i], 0)), conjugate);
  float3 v = p.xyz;
  v.zx = v.xz;
  v.y = -v.y + p.lo.y + p.even.x;
  out[i] = v;
  packed[i] = convert_short4_sat_rte(rint(p * 64.0f)).s3210;
}
