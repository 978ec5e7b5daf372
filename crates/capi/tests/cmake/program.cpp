// C++17, built by CMake from an installed gpumem and nothing else.
#include <gpumem.h>

#include <cstring>
#include <iostream>
#include <string_view>

int main() {
    if (gpumem_version() != GPUMEM_VERSION) {
        std::cerr << "library " << gpumem_version() << ", header " << GPUMEM_VERSION << '\n';
        return 1;
    }
    gpumem_device *device = nullptr;
    gpumem_config config = GPUMEM_CONFIG_INIT;
    config.device = "sim";
    if (gpumem_device_create(&config, &device) != GPUMEM_STATUS_OK) {
        std::cerr << gpumem_last_error() << '\n';
        return 1;
    }
    if (gpumem_device_stream_destroy(device, 77) == GPUMEM_STATUS_OK ||
        std::string_view(gpumem_last_error()).find("stream 77") == std::string_view::npos) {
        std::cerr << "a stream that doesn't exist was destroyed: " << gpumem_last_error() << '\n';
        return 1;
    }
    return gpumem_device_destroy(device) == GPUMEM_STATUS_OK ? 0 : 1;
}
