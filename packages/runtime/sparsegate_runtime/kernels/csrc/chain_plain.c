/* Chains of sparse layers by registers of four floats. */
#include "four_floats.h"

#include "variant.h"
