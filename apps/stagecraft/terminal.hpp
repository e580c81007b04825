#pragma once

#include "libsim/report/pipeline_picture.hpp"

namespace stagecraft {

/// The style of standard output. Its width is COLUMNS of the environment, or the terminal's, or
/// 100. It has colour on a terminal that is not dumb, unless NO_COLOR is set (no-color.org).
TextStyle standard_output_style();

}  // namespace stagecraft
