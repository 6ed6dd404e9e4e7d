/* A little machine for shader nodes: instructions as uint4, a stack of floats, enumerations, switches that fall through, decoded constants.
   run: shader_stack --global 8 --local 8 8=index 5 32
   tolerance: 1e-5 */
typedef enum { NODE_END = 0, NODE_VALUE, NODE_MATH, NODE_MIX, NODE_NOISE, NODE_JUMP } NodeType;
typedef enum NodeMath { MATH_ADD, MATH_SUBTRACT, MATH_MULTIPLY, MATH_SINE = 7, MATH_POWER, MATH_CLAMP } NodeMath;
#define STACK_SIZE 16
#define ccl_device_inline inline
#define ccl_constant __constant
ccl_constant uint4 program[] = {
  (uint4)(NODE_VALUE, 0x3f400000u, 1, 0), (uint4)(NODE_MATH, MATH_MULTIPLY, 0 | 1 << 8, 2), (uint4)(NODE_MATH, MATH_SINE, 2, 3),
  (uint4)(NODE_JUMP, 1, 0, 0), (uint4)(NODE_VALUE, 0x7fc00000u, 3, 0), (uint4)(NODE_MIX, 0 | 1 << 8 | 3 << 16, 0x3e800000u, 4),
  (uint4)(NODE_NOISE, 4, 5, 0), (uint4)(NODE_MATH, MATH_POWER, 5 | 1 << 8, 6), (uint4)(NODE_MATH, MATH_CLAMP, 6, 7), (uint4)(NODE_END)};
ccl_device_inline void decode(uint i, uint *x, uint *y, uint *z)
{
  *x = (i & 0xFF);
  *y = ((i >> 8) & 0xFF);
  *z = ((i >> 16) & 0xFF);
}
ccl_device_inline float stack_load(const float *stack, uint a) { return stack[a]; }
ccl_device_inline void stack_store(float *stack, uint a, float f) { if (a != 255u) stack[a] = f; }
static float svm_math(NodeMath type, float a, float b)
{
  switch (type) {
    case MATH_ADD: return a + b;
    case MATH_SUBTRACT: b = -b;  // falls through
    case MATH_MULTIPLY: return a * b;
    case MATH_SINE: return sinpi(a / M_PI_F);
    case MATH_POWER: return powr(fabs(a) + 1.0f, b);
    default: return clamp(a, 0.0f, 1.25f);
  }
}
__kernel void shader_stack(__global const float *input, const int iterations, __global float *buffer)
{
  float stack[STACK_SIZE];
  for (int i = 0; i < STACK_SIZE; i++) stack[i] = 0;
  stack_store(stack, 0, input[get_global_id(0)] * 0.25f);
  for (int sample = 0, offset; sample < iterations; sample++) {
    offset = 0;
    while (1) {
      uint4 node = program[offset++];
      uint a, b, c;
      switch (node.x) {
        case NODE_VALUE: stack_store(stack, node.z, as_float(node.y)); break;
        case NODE_MATH: decode(node.z, &a, &b, &c); stack_store(stack, node.w, svm_math((NodeMath)node.y, stack_load(stack, a), stack_load(stack, b))); break;
        case NODE_MIX: decode(node.y, &a, &b, &c); stack_store(stack, node.w, mix(stack[a] + stack[c], stack[b], as_float(node.z))); break;
        case NODE_NOISE: { float whole; stack_store(stack, node.z, fract(stack_load(stack, node.y) * 3.7f, &whole)); break; }
        case NODE_JUMP: offset += node.y; break;
        case NODE_END: goto done;
        default: return;
      }
    }
  done:;
    stack_store(stack, 0, stack[0] + stack[7] * 0.125f);
  }
  vstore4((float4)(stack[0], stack[3], stack[5], stack[7]), get_global_id(0), buffer);
}
