/* The header alone, and included twice, in any language that can read it. */
#include <gpumem.h>
#include <gpumem.h>

int main(void) {
    gpumem_config config = GPUMEM_CONFIG_INIT;
    gpumem_device_info info = GPUMEM_DEVICE_INFO_INIT;
    return config.struct_size == sizeof config && info.struct_size == sizeof info ? 0 : 1;
}
