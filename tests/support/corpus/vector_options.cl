/* x = y * alpha + z / beta in the style of generated linear algebra: options in the bits of an integer, sizes in a uint4.
   run: vector_options --global 32 --local 8 64 2,2,30,60 2.5 3 64=random(-1,1) 0,2,30,60 4 1 64=random(-1,1) 1,1,30,60
   tolerance: 1e-6 */
__kernel void vector_options(__global float *vec1, uint4 size1,
                             float fac2, unsigned int options2, __global const float *vec2, uint4 size2,
                             float fac3, unsigned int options3, __global const float *vec3, uint4 size3)
{
  float alpha = fac2, beta = fac3;
  if (options2 & (1 << 0)) alpha = -alpha;
  if (options3 & (1 << 0)) beta = -beta;
  if (options2 & (1 << 1)) {
    for (unsigned int i = get_global_id(0); i < size1.z; i += get_global_size(0))
      vec1[i * size1.y + size1.x] = vec2[i * size2.y + size2.x] / alpha + ((options3 & (1 << 1)) ? vec3[i * size3.y + size3.x] / beta : vec3[i * size3.y + size3.x] * beta);
  } else {
    for (unsigned int i = get_global_id(0); i < size1.z; i += get_global_size(0))
      vec1[i * size1.y + size1.x] = vec2[i * size2.y + size2.x] * alpha + vec3[i * size3.y + size3.x] * beta;
  }
}
