/* Movement */
KERNEL_OF(copy)
{
    (void)of;
    (void)context;
    return 2;
}

KERNEL_OF(fill)
{
    (void)of;
    (void)context;
    return 2;
}

KERNEL_OF(phases)
{
    (void)of;
    (void)context;
    return 2;
}

KERNEL_OF(embedding)
{
    (void)of;
    (void)context;
    return 2;
}

