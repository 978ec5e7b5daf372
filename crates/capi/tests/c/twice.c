/* The header alone, and included twice, in any language that can read it. */
#include <gpumem.h>
#include <gpumem.h>

int main(void) {
    gpumem_config config = GPUMEM_CONFIG_INIT;
    gpumem_device_info device_info = GPUMEM_DEVICE_INFO_INIT;
    gpumem_tensor tensor = GPUMEM_TENSOR_INIT;
    gpumem_op op = GPUMEM_OP_INIT;
    gpumem_plan_options plan_options = GPUMEM_PLAN_OPTIONS_INIT;
    gpumem_plan_info plan_info = GPUMEM_PLAN_INFO_INIT;
    gpumem_placement placement = GPUMEM_PLACEMENT_INIT;
    gpumem_tag tag = GPUMEM_TAG_INIT;
    gpumem_block_info block_info = GPUMEM_BLOCK_INFO_INIT;
    gpumem_statistics statistics = GPUMEM_STATISTICS_INIT;
    return config.struct_size == sizeof config &&
                   device_info.struct_size == sizeof device_info &&
                   tensor.struct_size == sizeof tensor &&
                   op.struct_size == sizeof op &&
                   plan_options.struct_size == sizeof plan_options &&
                   plan_info.struct_size == sizeof plan_info &&
                   placement.struct_size == sizeof placement &&
                   tag.struct_size == sizeof tag &&
                   block_info.struct_size == sizeof block_info &&
                   statistics.struct_size == sizeof statistics
               ? 0
               : 1;
}
