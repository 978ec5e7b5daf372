// The header alone, and twice.
#include <gpumem.hpp>
#include <gpumem.hpp>

int main() { return gpumem::pool() ? 1 : 0; }
