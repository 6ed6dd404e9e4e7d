"""The passes of the translation to CUDA C++: each file rewrites one construct that C++ lacks or means differently.

- Declarations: ``declarations``, ``attributes``, ``function_forms``, ``struct_layouts``, ``nested_types``.
- Expressions: ``expressions``, ``swizzles``, ``shifts``, ``vector_conditionals``, ``bool_increments``, ``pointer_conversions``.
- Initialisers and control flow: ``array_literals``, ``designated_initialisers``, ``jumps``.
"""
