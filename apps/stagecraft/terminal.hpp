#pragma once

#include "libsim/report/pipeline_picture.hpp"

namespace stagecraft {

/// How to write on standard output. Width: the environment's COLUMNS, else the terminal's, else
/// 100. Colour: on a terminal that is not dumb, unless NO_COLOR is set to something (no-color.org).
TextStyle standard_output_style();

}  // namespace stagecraft
