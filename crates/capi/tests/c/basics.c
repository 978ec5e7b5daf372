/* C99: the library is the one of the header; errors, settings and devices as the header says. */
#include <gpumem.h>

#include "check.h"
#include <string.h>

static void the_library_has_the_version_of_the_header(void) {
    char text[32];
    CHECK(gpumem_version() == GPUMEM_VERSION);
    snprintf(text, sizeof text, "%d.%d.%d", GPUMEM_VERSION_MAJOR, GPUMEM_VERSION_MINOR, GPUMEM_VERSION_PATCH);
    CHECK(strcmp(text, gpumem_version_text()) == 0);
}

static void statuses_have_names(void) {
    CHECK(strcmp(gpumem_status_name(GPUMEM_STATUS_OK), "ok") == 0);
    CHECK(strcmp(gpumem_status_name(GPUMEM_STATUS_INTERNAL), "internal") == 0);
    CHECK(strcmp(gpumem_status_name(-1), "unknown") == 0);
}

static void the_last_error_says_why(void) {
    gpumem_device *device = NULL;
    gpumem_config config = GPUMEM_CONFIG_INIT;
    CHECK(gpumem_last_error_status() == GPUMEM_STATUS_OK && gpumem_last_error()[0] == 0);
    config.settings = "hard_buget=1G";
    IS(GPUMEM_STATUS_CONFIGURATION, gpumem_device_create(&config, &device));
    CHECK(device == NULL);
    CHECK(strstr(gpumem_last_error(), "did you mean `hard_budget`?") != NULL);
    CHECK(gpumem_last_error_status() == GPUMEM_STATUS_CONFIGURATION);
}

static void settings_are_listed_with_their_source(void) {
    gpumem_config config = GPUMEM_CONFIG_INIT;
    size_t size = 0;
    char *text;
    config.hard_budget_bytes = 123456;
    config.guard = GPUMEM_ON;
    OK(gpumem_config_settings(&config, NULL, 0, &size));
    text = malloc(size);
    CHECK(text != NULL);
    IS(GPUMEM_STATUS_BUFFER_TOO_SMALL, gpumem_config_settings(&config, text, size - 1, &size));
    OK(gpumem_config_settings(&config, text, size, &size));
    CHECK(strlen(text) + 1 == size);
    CHECK(strstr(text, "\"name\":\"hard_budget\",\"source\":\"the call\",\"value\":\"123456\"") != NULL);
    CHECK(strstr(text, "\"name\":\"guard\",\"source\":\"the call\",\"value\":\"on\"") != NULL);
    CHECK(strstr(text, "\"source\":\"the default\"") != NULL);
    free(text);
}

static void wrong_sizes_and_switches_are_refused(void) {
    gpumem_config config = GPUMEM_CONFIG_INIT;
    gpumem_device *device = NULL;
    config.struct_size = 0;
    IS(GPUMEM_STATUS_STRUCT_SIZE, gpumem_device_create(&config, &device));
    config.struct_size = sizeof config + 8;
    IS(GPUMEM_STATUS_STRUCT_SIZE, gpumem_device_create(&config, &device));
    config.struct_size = sizeof config;
    config.guard = 3;
    IS(GPUMEM_STATUS_INVALID_ARGUMENT, gpumem_device_create(&config, &device));
}

static void a_device_is_what_was_asked_for(void) {
    gpumem_config config = GPUMEM_CONFIG_INIT;
    gpumem_device_info info = GPUMEM_DEVICE_INFO_INIT;
    gpumem_device *device = NULL;
    uint64_t stream = 0, event = 0;
    int32_t yes = 0;
    config.device = "sim";
    config.capacity_bytes = UINT64_C(1) << 30;
    OK(gpumem_device_create(&config, &device));
    OK(gpumem_device_query(device, &info));
    CHECK(info.total_bytes == UINT64_C(1) << 30 && info.free_bytes == info.total_bytes);
    CHECK(info.has_bytes == 0 && info.is_host_accessible == 0);
    OK(gpumem_device_stream_create(device, &stream));
    OK(gpumem_device_event_create(device, &event));
    OK(gpumem_device_event_record(device, event, stream));
    OK(gpumem_device_event_wait(device, event, 0));
    OK(gpumem_device_event_synchronize(device, event));
    OK(gpumem_device_event_query(device, event, &yes));
    CHECK(yes == 1);
    OK(gpumem_device_event_destroy(device, event));
    OK(gpumem_device_stream_destroy(device, stream));
    IS(GPUMEM_STATUS_INVALID_ARGUMENT, gpumem_device_stream_synchronize(device, 12345));
    OK(gpumem_device_destroy(device));
    IS(GPUMEM_STATUS_INVALID_HANDLE, gpumem_device_query(device, &info));
    IS(GPUMEM_STATUS_INVALID_HANDLE, gpumem_device_destroy(device));
    OK(gpumem_device_destroy(NULL));
    config.device = "cuda9";
    IS(GPUMEM_STATUS_NOT_FOUND, gpumem_device_create(&config, &device));
}

int main(void) {
    the_library_has_the_version_of_the_header();
    statuses_have_names();
    the_last_error_says_why();
    settings_are_listed_with_their_source();
    wrong_sizes_and_switches_are_refused();
    a_device_is_what_was_asked_for();
    return 0;
}
