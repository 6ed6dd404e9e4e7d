/* A layer of a neural network, 16 inputs by 16 units, with a tree in local memory.
   run: backprop --global 16,32 --local 16,16 33=random 34x17=random(-1,1) 32=zeros 16 16x16 16 2
   tolerance: 2e-4 */
#define HEIGHT 16
__kernel void backprop(__global float *input_cuda, __global float *input_hidden_cuda, __global float *hidden_partial_sum,
                       __local float *input_node, __local float *weight_matrix, int hid, int in)
{
  int by = get_group_id(1), tx = get_local_id(0), ty = get_local_id(1);
  int index = (hid + 1) * HEIGHT * by + (hid + 1) * ty + tx + 1 + (hid + 1), index_in = HEIGHT * by + ty + 1;
  if (tx == 0) input_node[ty] = input_cuda[index_in];
  barrier(CLK_LOCAL_MEM_FENCE);
  weight_matrix[ty * HEIGHT + tx] = input_hidden_cuda[index] * input_node[ty];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = 1; i <= HEIGHT; i = i * 2) {
    int power_two = i;
    if (ty % power_two == 0 && power_two < HEIGHT && ty % (2 * power_two) == 0) weight_matrix[ty * HEIGHT + tx] += weight_matrix[(ty + power_two) * HEIGHT + tx];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (ty == 0) hidden_partial_sum[by * hid + tx] = 1.0f / (1.0f + native_exp(-weight_matrix[tx]));
}
