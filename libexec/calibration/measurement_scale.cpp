#include "libexec/calibration/measurement_scale.hpp"

namespace stagecraft {

MeasurementScale measurement_scale(DeviceKind device) {
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  if (device == DeviceKind::cpu) {
    return {.extents = {8, 32, 128, 512, 1024},
            .batched_extents = {},
            .batch = 1,
            .operand_bytes = 96 * mebibyte,
            .models = {{.hidden = 64, .heads = 4, .sequence = 32, .micro = 1},
                       {.hidden = 128, .heads = 4, .sequence = 128, .micro = 2},
                       {.hidden = 256, .heads = 8, .sequence = 256, .micro = 2},
                       {.hidden = 512, .heads = 8, .sequence = 256, .micro = 4}}};
  }
  return {.extents = {256, 1024, 2048, 4096, 8192, 16384},
          // The sizes of heads, whose rates are not between those of their neighbours.
          .batched_extents = {64, 80, 96, 128, 160, 256, 512, 2048},
          .batch = 48,
          .operand_bytes = 4096 * mebibyte,
          .models = {{.hidden = 512, .heads = 8, .sequence = 512, .micro = 1},
                     {.hidden = 1024, .heads = 16, .sequence = 1024, .micro = 2},
                     {.hidden = 2048, .heads = 16, .sequence = 2048, .micro = 2},
                     {.hidden = 4096, .heads = 32, .sequence = 2048, .micro = 4}},
          .flash_by_bytes = false};
}

}  // namespace stagecraft
