"""The passes of the translation to CUDA C++: each file rewrites one construct that C++ lacks or means differently."""
