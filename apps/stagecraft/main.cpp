#include "apps/program/run_program.hpp"
#include "apps/stagecraft/commands.hpp"

int main(int argc, char** argv) {
  return stagecraft::run_program(stagecraft::planning_program(), {argv + 1, argv + argc});
}
